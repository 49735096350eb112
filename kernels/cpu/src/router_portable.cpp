#include "router_select.h"

namespace eb {

const RouterSelect kRouterSelectPortable = EB_ISA::router_select;

}  // namespace eb
