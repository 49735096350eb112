// What a library handle holds: the instruction set, the threads and the lent workspace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa.h"
#include "pool.h"

namespace eb {

struct Context {
  Isa isa;
  Pool pool;
  uint8_t* workspace = nullptr;
  size_t workspace_bytes = 0;

  Context(Isa chosen, int threads, int spin_us) : isa(chosen), pool(threads, spin_us) {}
};

// Cuts the workspace into arrays, 64-byte aligned. After a request that does not fit `ok()` is false.
class Carver {
 public:
  explicit Carver(const Context& context)
      : start_(reinterpret_cast<uintptr_t>(context.workspace)), next_(start_), end_(start_ + context.workspace_bytes) {}

  // Cuts nothing: adds up what the same requests would need (`used`). The pointers handed out are not memory.
  static Carver measure() { return Carver(); }

  template <typename T>
  T* take(size_t count) {
    const uintptr_t start = (next_ + 63) & ~uintptr_t{63};
    ok_ = ok_ && start <= end_ && count <= (end_ - start) / sizeof(T);
    next_ = ok_ ? start + count * sizeof(T) : end_;
    return ok_ ? reinterpret_cast<T*>(start) : nullptr;
  }

  bool ok() const { return ok_; }
  // Bytes taken so far, with what the first array may lose to alignment.
  size_t used() const { return next_ - start_ + 64; }

 private:
  Carver() : start_(64), next_(64), end_(UINTPTR_MAX) {}

  uintptr_t start_, next_, end_;
  bool ok_ = true;
};

// What every exported operation returns.
enum Status : int {
  kOk = 0,
  kWorkspaceTooSmall = 1,
  kAbsentBlock = 2,
  kIndexOutOfRange = 3,
  kBadArgument = 4,
};

}  // namespace eb

// No exported function lets an exception out, for C has none: the pool alone calls what throws, when it starts its
// threads, and catches it. Operations take no memory; what they need is in the workspace.
#if defined(_WIN32)
#define EB_API extern "C" __declspec(dllexport)
#else
#define EB_API extern "C" __attribute__((visibility("default")))
#endif
