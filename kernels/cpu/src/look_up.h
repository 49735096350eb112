// What a code of up to eight bits stands for: itself, or a table's entry, a byte.
//
// A look-up is a type: constructed from the 256 bytes of a table's row (CodeBook::table), called with one code or with
// a vector of them. Those of vectors are in look_up_x86.h.
#pragma once

#include <cstdint>

#include "isa.h"

namespace eb {
namespace EB_ISA {

struct AsIs {
  static constexpr bool kTable = false;
  explicit AsIs(const uint8_t*) {}
  template <typename Codes>
  Codes operator()(Codes codes) const {
    return codes;
  }
};

struct PlainTable {
  static constexpr bool kTable = true;
  const uint8_t* row;
  explicit PlainTable(const uint8_t* from) : row(from) {}
  uint8_t operator()(uint8_t code) const { return row[code]; }
};

}  // namespace EB_ISA
}  // namespace eb
