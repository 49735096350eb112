#include "pool.h"

#include <chrono>
#include <exception>

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

namespace eb {
namespace {

void relax() {
#if defined(__x86_64__) || defined(_M_X64)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int64_t now_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

// Spins until ready() or until `limit_ns` have passed; returns what ready() said last.
template <typename Ready>
bool spin(int64_t limit_ns, Ready ready) {
  const int64_t start = now_ns();
  do {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
      relax();
    }
  } while (now_ns() - start < limit_ns);
  return ready();
}

constexpr uint64_t kTaskMask = 0xffffffffu;

}  // namespace

Pool::Pool(int threads, int spin_us) : spin_ns_(int64_t{1000} * spin_us) {
  try {
    for (int worker = 1; worker < threads; ++worker) workers_.emplace_back([this, worker] { work(worker); });
  } catch (const std::exception&) {
    // A limit on threads or memory: those that run are whole, and they do all the work.
  }
}

Pool::~Pool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_.store(true);
  }
  wake_.notify_all();
  for (auto& thread : workers_) thread.join();
}

void Pool::run(int tasks, Function function, void* argument) {
  if (tasks <= 0) return;
  function_ = function;
  argument_ = argument;
  tasks_ = tasks;
  pending_.store(tasks, std::memory_order_relaxed);
  const uint64_t region = (open_.load(std::memory_order_relaxed) >> 32) + 1;
  open_.store(region << 32 | static_cast<uint32_t>(tasks));  // seq_cst: ordered before the look at sleepers_
  if (sleepers_.load() > 0) {
    { std::lock_guard<std::mutex> lock(mutex_); }
    wake_.notify_all();
  }
  while (take_and_run(0)) {
  }
  const auto done = [this] { return pending_.load(std::memory_order_acquire) == 0; };
  while (!spin(spin_ns_, done)) std::this_thread::yield();
}

bool Pool::take_and_run(int worker) {
  uint64_t word = open_.load(std::memory_order_acquire);
  do {
    if ((word & kTaskMask) == 0) return false;
  } while (!open_.compare_exchange_weak(word, word - 1, std::memory_order_acq_rel, std::memory_order_acquire));
  function_(argument_, tasks_ - static_cast<int>(word & kTaskMask), worker);
  pending_.fetch_sub(1, std::memory_order_release);
  return true;
}

// True when a region other than `seen` was opened, false when the pool ends.
bool Pool::wait_for_region(uint64_t seen) {
  const auto ready = [this, seen] { return (open_.load() >> 32) != seen || stop_.load(); };
  if (!spin(spin_ns_, ready)) {
    std::unique_lock<std::mutex> lock(mutex_);
    sleepers_.fetch_add(1);
    wake_.wait(lock, ready);
    sleepers_.fetch_sub(1);
  }
  return !stop_.load();
}

void Pool::work(int worker) {
  uint64_t seen = 0;
  while (wait_for_region(seen)) {
    seen = open_.load() >> 32;
    while (take_and_run(worker)) {
    }
  }
}

}  // namespace eb
