// Work on the threads of XLA's pool, and memory of a thread that is kept between calls.

#ifndef METAPL_ONEDNN_PARALLEL_H_
#define METAPL_ONEDNN_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

// Memory of a thread that grows to the largest size it was asked for.
class Buffer {
 public:
  ~Buffer() { std::free(data_); }
  char* Get(size_t bytes) {
    if (bytes > size_) {
      std::free(data_);
      size_ = (bytes + 4095) / 4096 * 4096;
      data_ = std::aligned_alloc(4096, size_);
      if (data_ == nullptr) {
        size_ = 0;
        throw std::bad_alloc();
      }
    }
    return static_cast<char*>(data_);
  }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

// Tells the processor that this thread waits for another one.
inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Runs task(0), …, task(count - 1) on the pool's threads and on this one, which may be one of them: it never waits for
// a task that no thread has begun. A thread takes the next task when it is done with one, so with more tasks than
// threads, a thread that comes late costs little. To wake a thread takes longer than most tasks: the wait begins awake.
template <class Pool, class Task>
void InParallel(Pool& pool, int64_t count, Task task) {
  constexpr int kPauses = 1000;  // about 20 µs
  struct State {
    std::atomic<int64_t> next{0}, done{0};
    std::mutex mutex;
    std::condition_variable all_done;
    std::exception_ptr error;
  };
  auto state = std::make_shared<State>();
  auto shared_task = std::make_shared<Task>(std::move(task));
  auto work = [state, shared_task, count] {
    for (int64_t i = state->next.fetch_add(1); i < count; i = state->next.fetch_add(1)) {
      std::exception_ptr error;
      try {
        (*shared_task)(i);
      } catch (...) {
        error = std::current_exception();
      }
      std::lock_guard<std::mutex> lock(state->mutex);
      if (error) state->error = error;
      if (state->done.fetch_add(1) + 1 == count) state->all_done.notify_all();
    }
  };
  for (int64_t i = 1; i < std::min<int64_t>(count, pool.num_threads()); ++i) {
    auto copy = work;
    pool.Schedule(std::move(copy));
  }
  work();
  for (int i = 0; i < kPauses && state->done.load() < count; ++i) Pause();
  std::unique_lock<std::mutex> lock(state->mutex);
  state->all_done.wait(lock, [&] { return state->done.load() == count; });
  if (state->error) std::rethrow_exception(state->error);
}

#endif  // METAPL_ONEDNN_PARALLEL_H_
