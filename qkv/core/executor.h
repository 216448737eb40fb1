#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "qkv/core/index.h"

namespace qkv {

/// Borrows something callable for the length of a call; never allocates.
template <class Signature>
class FunctionRef;

/// For functions from Args to Result.
template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  /// Borrows `callable`, which has to outlive the call that it is passed to.
  template <class Callable>
  requires(!std::is_same_v<std::remove_cvref_t<Callable>, FunctionRef>)
      FunctionRef(Callable&& callable)  // NOLINT(*-explicit-constructor,*-reference-overload)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, Args... args) -> Result {
          return (*static_cast<std::remove_reference_t<Callable>*>(object))(std::forward<Args>(args)...);
        }) {}

  /// Calls it.
  Result operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  Result (*call_)(void*, Args...);
};

/// What runs the tasks of a call. Derive from it to run qkv on the threads of your own program.
class Executor {
 public:
  virtual ~Executor() = default;

  /// How many tasks may run at the same time.
  virtual Index num_workers() const = 0;

  /// Calls task(index, worker) once for every index in 0 .. num_tasks-1 and returns when all have finished.
  /// worker is in 0 .. num_workers()-1, and within one run no two tasks that overlap in time share it: it names scratch
  /// memory. Neighbours share operands, and long tasks come before short ones: a worker should take consecutive indices, in
  /// rising order; nothing but speed depends on it. Errors: the first exception of a task is rethrown; tasks not yet
  /// started are then left out. Threads: may be called from several threads, and from inside a task.
  virtual void run(Index num_tasks, FunctionRef<void(Index task, Index worker)> task) = 0;
};

/// Runs every task on the thread that calls run(). Allocates nothing, locks nothing.
Executor& calling_thread_executor();

/// No executor takes more workers, and QKV_NUM_THREADS no larger number.
inline constexpr Index kMostWorkers = 4096;

/// Threads of oneTBB: at most num_workers, the caller's included, and never more than oneTBB allows the process.
class TbbExecutor final : public Executor {
 public:
  /// Errors: std::invalid_argument unless num_workers is 1 to kMostWorkers.
  explicit TbbExecutor(Index num_workers);
  ~TbbExecutor() override;

  Index num_workers() const override;
  void run(Index num_tasks, FunctionRef<void(Index task, Index worker)> task) override;

 private:
  struct Arena;
  std::unique_ptr<Arena> arena_;
};

/// The executor of every call that names none: a TbbExecutor over default_num_threads(), made at first use.
Executor& default_executor();

/// QKV_NUM_THREADS where it is set, else num_available_processors().
/// Errors: std::invalid_argument if QKV_NUM_THREADS is not a whole number from 1 to 4096.
Index default_num_threads();

/// Processors this process may use: its CPU affinity, cut by the CPU quota of its cgroup (v1 or v2), at least 1.
Index num_available_processors();

}  // namespace qkv
