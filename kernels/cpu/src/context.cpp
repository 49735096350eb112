#include "context.h"

#include <new>

using namespace eb;

EB_API int eb_best_isa() { return static_cast<int>(best_isa()); }

// Null where the instruction set may not be used, and without memory. There may be fewer threads: ask eb_threads.
EB_API Context* eb_create(int isa, int threads, int spin_us) {
  // Asking is what gives this process the right to use the tiles.
  if (static_cast<Isa>(isa) == Isa::amx && best_isa() != Isa::amx) return nullptr;
  return new (std::nothrow) Context(static_cast<Isa>(isa), threads, spin_us);
}

EB_API int eb_threads(const Context* context) { return context->pool.threads(); }

EB_API void eb_destroy(Context* context) { delete context; }

EB_API void eb_set_workspace(Context* context, uint8_t* buffer, size_t bytes) {
  context->workspace = buffer;
  context->workspace_bytes = bytes;
}
