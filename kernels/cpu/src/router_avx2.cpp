#include "router_select.h"

namespace eb {

const RouterSelect kRouterSelectAvx2 = EB_ISA::router_select;

}  // namespace eb
