// A list of recorded operations, run by one call: a token's many small operations without an interpreter between them.
#include <cstring>
#include <utility>

#include "api.h"

using namespace eb;

namespace {

constexpr int kMaxArguments = 12;

// An operation's number, and its arguments after the context, each in a word of its own.
struct Command {
  int64_t operation;
  uint64_t arguments[kMaxArguments];
};

template <typename T>
T argument(uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof value);  // all supported processors are little-endian
  return value;
}

template <typename... Types, size_t... kIndex>
int call(int (*operation)(Context*, Types...), Context* context, const uint64_t* words, std::index_sequence<kIndex...>) {
  static_assert(sizeof...(Types) <= kMaxArguments, "raise kMaxArguments here and in program.py");
  return operation(context, argument<Types>(words[kIndex])...);
}

template <typename... Types>
int call(int (*operation)(Context*, Types...), Context* context, const uint64_t* words) {
  return call(operation, context, words, std::index_sequence_for<Types...>());
}

// The numbers are the positions in OPERATIONS of program.py.
int run(Context* context, const Command& command) {
  const uint64_t* words = command.arguments;
  switch (command.operation) {
    case 0: return call(eb_linear, context, words);
    case 1: return call(eb_moe, context, words);
    case 2: return call(eb_embed, context, words);
    case 3: return call(eb_glu, context, words);
    case 4: return call(eb_combine, context, words);
    case 5: return call(eb_rmsnorm, context, words);
    case 6: return call(eb_rope, context, words);
    case 7: return call(eb_kv_write, context, words);
    case 8: return call(eb_attention, context, words);
    case 9: return call(eb_router, context, words);
    default: return kBadArgument;
  }
}

}  // namespace

// Runs the commands in order; stops at the first whose status is not kOk and returns it.
EB_API int eb_run(Context* context, const Command* commands, int count) {
  for (int i = 0; i < count; ++i)
    if (const int status = run(context, commands[i])) return status;
  return kOk;
}
