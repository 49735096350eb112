// GCC 12 warns about its own header here (its "undefined" vectors are not initialised).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "router_select.h"

namespace eb {

const RouterSelect kRouterSelectAvx512 = EB_ISA::router_select;

}  // namespace eb
