// A pool of worker threads for short parallel regions (a few microseconds to milliseconds).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace eb {

// One region at a time, started by one thread at a time (the caller takes part as worker 0).
//
// A region's tasks are handed out one by one in increasing order. The word `open_` holds the region's number and how
// many of its tasks are still to be taken; a worker owns a task once it has decremented that word, and only then
// reads the region's fields, which stay unchanged until every task is done. So a worker that sleeps through a whole
// region delays nobody.
class Pool {
 public:
  using Function = void (*)(void* argument, int task, int worker);

  // Starts `threads` threads, the caller's counted; fewer where the system allows no more. Throws nothing.
  explicit Pool(int threads, int spin_us = 100);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // How many there are.
  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls function(argument, task, worker) for every task in [0, tasks); returns when all are done.
  void run(int tasks, Function function, void* argument);

 private:
  void work(int worker);
  bool take_and_run(int worker);
  bool wait_for_region(uint64_t seen);

  std::vector<std::thread> workers_;
  int64_t spin_ns_;
  Function function_ = nullptr;
  void* argument_ = nullptr;
  int tasks_ = 0;
  alignas(64) std::atomic<uint64_t> open_{0};
  alignas(64) std::atomic<int> pending_{0};
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
};

// parallel_for(pool, tasks, [&](int task, int worker) { ... }): the body may not throw.
template <typename Body>
static inline void parallel_for(Pool& pool, int tasks, Body&& body) {
  using Plain = typename std::remove_reference<Body>::type;
  if (tasks == 1 || pool.threads() == 1) {
    for (int task = 0; task < tasks; ++task) body(task, 0);
    return;
  }
  pool.run(
      tasks, [](void* argument, int task, int worker) { (*static_cast<Plain*>(argument))(task, worker); },
      const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}

}  // namespace eb
