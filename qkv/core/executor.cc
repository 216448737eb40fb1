#include "qkv/core/executor.h"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "qkv/core/check.h"
#include "qkv/core/memory.h"

namespace qkv {
namespace {

class CallingThreadExecutor final : public Executor {
 public:
  Index num_workers() const override { return 1; }
  void run(Index num_tasks, FunctionRef<void(Index, Index)> task) override {
    for (Index index = 0; index < num_tasks; ++index) task(index, 0);
  }
};

// One run on several threads. Each slot has a share of consecutive tasks, which it works through before it helps with the others': so a thread finds the
// operands of neighbours, and what it wrote in the last run, in its own cache. Slots, not threads, name the scratch memory, so a thread that waits in a nested
// run and picks up another slot's loop cannot meet itself.
//
// The first thing any thread does with a loop is to acquire it, the last is to release it, and the destructor acquires. So tasks see what the caller wrote,
// and the caller what they wrote. oneTBB sees to that too, but inside its library, where ThreadSanitizer is blind. Tasks of one run are not ordered.
class TaskLoop {
 public:
  TaskLoop(Index num_tasks, Index num_slots, FunctionRef<void(Index, Index)> task) : task_(task), shares_(num_slots) {
    Index begin = 0;
    for (Index slot = 0; slot < num_slots; ++slot) {
      shares_[slot].next.store(begin, std::memory_order_relaxed);
      begin += num_tasks / num_slots + (slot < num_tasks % num_slots ? 1 : 0);
      shares_[slot].end = begin;
    }
    synchronise_loop();
  }
  TaskLoop(const TaskLoop&) = delete;
  TaskLoop& operator=(const TaskLoop&) = delete;
  ~TaskLoop() { synchronise_loop(); }

  // Starts the slots and waits for them; on the caller's thread, or on one of the arena's where the arena is full.
  // A static partitioner gives a slot to the same thread in every run, if that is free.
  void operator()() const {
    const Ordered ordered(*this);
    oneapi::tbb::parallel_for(Index{0}, num_slots(), Index{1}, *this, oneapi::tbb::static_partitioner{});
  }

  // Works through tasks as one slot. The loop itself is what oneTBB calls: a lambda would be one more thing whose handing over ThreadSanitizer cannot see.
  void operator()(Index slot) const {
    const Ordered ordered(*this);
    try {
      for (Index step = 0; step < num_slots(); ++step) {
        Share& share = shares_[(slot + step) % num_slots()];
        for (Index index; (index = share.claim()) < share.end;) task_(index, slot);
      }
    } catch (...) {
      // The others stop after the task they are in.
      for (Share& share : shares_) share.next.store(share.end, std::memory_order_relaxed);
      throw;
    }
  }

 private:
  struct alignas(kMemoryAlignment) Share {
    std::atomic<Index> next;
    Index end = 0;

    // A task of this share that nobody has claimed, else an index from `end` on. A load first: at the end every slot looks into every share, and a
    // load leaves the cache line to its owner.
    Index claim() {
      const Index seen = next.load(std::memory_order_relaxed);
      return seen < end ? next.fetch_add(1, std::memory_order_relaxed) : seen;
    }
  };

  // Acquires the loop, and releases it on the way out, however that is taken.
  class Ordered {
   public:
    explicit Ordered(const TaskLoop& loop) : loop_(loop) { loop_.synchronise_loop(); }
    Ordered(const Ordered&) = delete;
    Ordered& operator=(const Ordered&) = delete;
    ~Ordered() { loop_.synchronise_loop(); }

   private:
    const TaskLoop& loop_;
  };

  Index num_slots() const { return static_cast<Index>(shares_.size()); }
  void synchronise_loop() const { order_.fetch_add(1, std::memory_order_acq_rel); }

  FunctionRef<void(Index, Index)> task_;
  mutable std::vector<Share> shares_;
  alignas(kMemoryAlignment) mutable std::atomic<Index> order_ = 0;  // written by all, on a line of its own
};

// The CPU quota of one cgroup folder in processors, rounded up; nothing where there is no limit.
std::optional<Index> cgroup_quota(const std::string& folder) {
  double quota = -1, period = 0;
  if (std::ifstream v2(folder + "/cpu.max"); v2) {
    std::string text;
    v2 >> text >> period;
    if (text != "max") quota = std::atof(text.c_str());
  } else {
    std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  }
  if (quota <= 0 || period <= 0) return std::nullopt;
  return std::max<Index>(1, static_cast<Index>((quota + period - 1) / period));
}

// The smallest quota of this process's cgroup and its ancestors: a limit on any of them holds.
std::optional<Index> process_cgroup_quota() {
  std::optional<Index> smallest;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/path" (v2) or "4:cpu,cpuacct:/path" (v1)
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool is_v2 = controllers == ",,";
    if (!is_v2 && controllers.find(",cpu,") == std::string::npos) continue;
    const std::string root = is_v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      if (path == "/") path.clear();
      if (const auto quota = cgroup_quota(root + path)) smallest = std::min(smallest.value_or(*quota), *quota);
      if (path.find('/') == std::string::npos) break;
    }
  }
  return smallest;
}

}  // namespace

struct TbbExecutor::Arena {
  explicit Arena(Index workers) : num_workers(workers), arena(static_cast<int>(std::min(workers, most_threads()))) {}

  // oneTBB prints a warning when an arena asks for more threads than it will ever start.
  static Index most_threads() {
    using oneapi::tbb::global_control;
    return static_cast<Index>(
        std::max<std::size_t>(1, global_control::active_value(global_control::max_allowed_parallelism)));
  }

  Index num_workers;
  oneapi::tbb::task_arena arena;
};

TbbExecutor::TbbExecutor(Index num_workers) {
  check(num_workers >= 1 && num_workers <= kMostWorkers, "TbbExecutor", "num_workers", num_workers, "1 to 4096");
  arena_ = std::make_unique<Arena>(num_workers);
}

TbbExecutor::~TbbExecutor() = default;

Index TbbExecutor::num_workers() const {
  return arena_->num_workers;
}

void TbbExecutor::run(Index num_tasks, FunctionRef<void(Index, Index)> task) {
  const Index num_slots = std::min(num_tasks, static_cast<Index>(arena_->arena.max_concurrency()));
  if (num_slots <= 1) return calling_thread_executor().run(num_tasks, task);

  const TaskLoop loop(num_tasks, num_slots, task);
  arena_->arena.execute(loop);
}

Executor& calling_thread_executor() {
  static CallingThreadExecutor executor;
  return executor;
}

Executor& default_executor() {
  static TbbExecutor executor(default_num_threads());
  return executor;
}

Index default_num_threads() {
  const char* text = std::getenv("QKV_NUM_THREADS");
  if (text == nullptr || *text == '\0') return num_available_processors();
  Index threads = 0;
  const char* end = text + std::char_traits<char>::length(text);
  const auto [stop, error] = std::from_chars(text, end, threads);
  check(error == std::errc{} && stop == end && threads >= 1 && threads <= kMostWorkers, "default_num_threads",
        "QKV_NUM_THREADS", text, "a whole number from 1 to 4096");
  return threads;
}

Index num_available_processors() {
  Index processors = std::max(1u, std::thread::hardware_concurrency());
  cpu_set_t affinity;
  if (sched_getaffinity(0, sizeof affinity, &affinity) == 0) processors = CPU_COUNT(&affinity);
  if (const auto quota = process_cgroup_quota()) processors = std::min(processors, *quota);
  return std::max<Index>(1, processors);
}

}  // namespace qkv
