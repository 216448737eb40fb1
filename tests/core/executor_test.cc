#include "qkv/core/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <oneapi/tbb/global_control.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace qkv {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class EveryExecutor : public testing::TestWithParam<Index> {
 protected:
  EveryExecutor() : threads_(std::max<Index>(1, GetParam())) {}
  Executor& executor() { return GetParam() == 0 ? calling_thread_executor() : static_cast<Executor&>(threads_); }

 private:
  TbbExecutor threads_;
};

TEST_P(EveryExecutor, RunsEveryTaskOnce) {
  constexpr Index kTasks = 1000;
  std::vector<std::atomic<int>> runs(kTasks);
  executor().run(kTasks, [&](Index task, Index) { ++runs[static_cast<std::size_t>(task)]; });
  for (const auto& count : runs) EXPECT_EQ(count, 1);
  executor().run(0, [&](Index, Index) { FAIL(); });
}

TEST_P(EveryExecutor, NeverLendsAWorkerTwiceAtOnce) {
  std::vector<std::atomic<int>> busy(static_cast<std::size_t>(executor().num_workers()));
  std::atomic<int> clashes = 0;
  executor().run(200, [&](Index, Index worker) {
    if (++busy.at(static_cast<std::size_t>(worker)) != 1) ++clashes;
    std::this_thread::yield();
    --busy[static_cast<std::size_t>(worker)];
  });
  EXPECT_EQ(clashes, 0);
}

TEST_P(EveryExecutor, RunsNestedCallsWithoutDeadlockOrSharedScratch) {
  std::atomic<Index> sum = 0, clashes = 0;
  std::vector<std::atomic<int>> busy(static_cast<std::size_t>(executor().num_workers()));
  executor().run(20, [&](Index, Index worker) {
    if (++busy[static_cast<std::size_t>(worker)] != 1) ++clashes;
    executor().run(20, [&](Index inner, Index) { sum += inner; });
    --busy[static_cast<std::size_t>(worker)];
  });
  EXPECT_EQ(sum, 20 * 190);
  EXPECT_EQ(clashes, 0);
}

TEST_P(EveryExecutor, RethrowsTheExceptionOfATaskAndStaysUsable) {
  EXPECT_THAT(
      [&] {
        executor().run(100, [](Index task, Index) {
          if (task == 7) throw std::runtime_error("task 7");
        });
      },
      ThrowsMessage<std::runtime_error>("task 7"));
  std::atomic<int> count = 0;
  executor().run(10, [&](Index, Index) { ++count; });
  EXPECT_EQ(count, 10);
}

TEST_P(EveryExecutor, UsesNoMoreThreadsThanItSays) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  executor().run(64, [&](Index, Index) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_LE(static_cast<Index>(threads.size()), executor().num_workers());
}

// oneTBB has two threads, also where there is one processor.
class TwoWorkers : public testing::Test {
 private:
  oneapi::tbb::global_control two_{oneapi::tbb::global_control::max_allowed_parallelism, 2};
};

TEST_F(TwoWorkers, HelpOneAnotherWhereATaskTakesLong) {
  constexpr Index kTasks = 100;
  TbbExecutor executor(2);
  for (const Index long_task : {Index{0}, kTasks / 2}) {  // the first of either worker's share
    std::atomic<Index> finished = 0;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    Index finished_meanwhile = 0;
    executor.run(kTasks, [&](Index task, Index) {
      if (task == long_task) {
        while (finished < kTasks - 1 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
        finished_meanwhile = finished;
      }
      ++finished;
    });
    EXPECT_EQ(finished_meanwhile, kTasks - 1);
  }
}

// Runs tasks on two workers, of whom each waits in its first until the other has one, too, or for 20 seconds.
template <class Task>
void run_on_two_workers(Index num_tasks, const Task& task) {
  TbbExecutor executor(2);
  std::array<std::atomic<bool>, 2> is_there{};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  executor.run(num_tasks, [&](Index index, Index worker) {
    is_there.at(static_cast<std::size_t>(worker)) = true;
    while (!(is_there[0] && is_there[1]) && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    task(index, worker);
  });
}

TEST_F(TwoWorkers, BeginWithEvenSharesOfNeighbours) {
  std::array<std::atomic<Index>, 2> first{-1, -1};
  run_on_two_workers(101, [&](Index index, Index worker) {
    Index none = -1;
    first.at(static_cast<std::size_t>(worker)).compare_exchange_strong(none, index);
  });
  EXPECT_THAT((std::vector<Index>{first[0], first[1]}), testing::UnorderedElementsAre(0, 51));
}

TEST_F(TwoWorkers, LeaveOutWhatHasNotBegunWhenATaskThrows) {
  constexpr Index kTasks = 100000;
  std::atomic<Index> begun = 0;
  EXPECT_THROW(run_on_two_workers(kTasks,
                                  [&](Index index, Index) {
                                    if (index == 0) throw std::runtime_error("task 0");
                                    ++begun;
                                    std::this_thread::sleep_for(std::chrono::microseconds(100));
                                  }),
               std::runtime_error);
  EXPECT_LT(begun, kTasks / 2);
}

INSTANTIATE_TEST_SUITE_P(Workers, EveryExecutor, testing::Values(0, 1, 2, 4, 64), [](const auto& workers) {
  return workers.param == 0 ? "calling_thread" : std::to_string(workers.param) + "_workers";
});

TEST(TbbExecutor, RefusesFewerThanOneWorker) {
  EXPECT_THAT([] { TbbExecutor(0); }, ThrowsMessage<std::invalid_argument>(HasSubstr("num_workers: got 0")));
}

class NumThreads : public testing::Test {
 protected:
  void TearDown() override { unsetenv("QKV_NUM_THREADS"); }
};

TEST_F(NumThreads, TakesTheEnvironmentVariable) {
  setenv("QKV_NUM_THREADS", "3", 1);
  EXPECT_EQ(default_num_threads(), 3);
  setenv("QKV_NUM_THREADS", "", 1);
  EXPECT_EQ(default_num_threads(), num_available_processors());
}

TEST_F(NumThreads, RefusesWhatIsNotANumberOfThreads) {
  for (const char* text : {"0", "-1", "two", "2x", "99999999999999999999", " 2", "4097"}) {
    setenv("QKV_NUM_THREADS", text, 1);
    EXPECT_THAT([] { default_num_threads(); },
                ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("QKV_NUM_THREADS"), HasSubstr(text))));
  }
}

TEST_F(NumThreads, RespectsTheCpuAffinity) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(num_available_processors(), 1);
  sched_setaffinity(0, sizeof before, &before);
  EXPECT_LE(num_available_processors(), CPU_COUNT(&before));
}

}  // namespace
}  // namespace qkv
