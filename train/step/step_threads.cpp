#include "train/step/step_threads.h"

#include <ATen/Parallel.h>
#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <latch>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "core/seconds_since.h"

namespace folio::train {
namespace {

#ifndef _OPENMP
#error this file has to be compiled with OpenMP
#endif

struct ProcessorUsage {
  int processors = 0;   // processors available to this process; 0: unknown
  double others = 0.0;  // CPU seconds used on these processors by other programs and virtual machines (steal)
};

// Returns the usage since boot. Source: proc(5), /proc/stat: "cpu0 user nice system idle iowait irq softirq steal …".
ProcessorUsage usage() {
  cpu_set_t mine;
  if (::sched_getaffinity(0, sizeof mine, &mine) != 0) return {};
  ProcessorUsage result;
  double ticks = 0.0;
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line) && line.starts_with("cpu");) {
    if (line[3] == ' ') continue;  // the line with the sum of all processors
    std::istringstream words(line.substr(3));
    int cpu = -1;
    double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
    words >> cpu >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal;
    if (!words || cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &mine)) continue;
    ++result.processors;
    ticks += user + nice + system + irq + softirq + steal;
  }
  timespec own{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  result.others = ticks / static_cast<double>(::sysconf(_SC_CLK_TCK)) - static_cast<double>(own.tv_sec) -
                  1e-9 * static_cast<double>(own.tv_nsec);
  return result;
}

}  // namespace

// Sleeping OpenMP threads that stop libgomp's busy waiting: with more OpenMP threads than processors, libgomp spins 100
// times instead of 300,000 (see GOMP_SPINCOUNT in its manual). Setting GOMP_SPINCOUNT here would have no effect, since
// libgomp reads it when the library is loaded.
class StepThreads::ExtraThreads {
 public:
  explicit ExtraThreads(int n)
      : starter_([this, n] {
#pragma omp parallel num_threads(n)
          { asm volatile("" ::: "memory"); }  // the compiler would remove an empty region
          started_.count_down();
          end_.wait();
        }) {
    started_.wait();
  }
  ~ExtraThreads() { end_.count_down(); }

 private:
  std::latch started_{1}, end_{1};
  std::jthread starter_;  // owns the sleeping OpenMP threads, which end with it
};

int threads_that_fit(int now, double processors_left, int threads) {
  constexpr double kTooMany = 0.35;  // remove a thread if the threads lack this fraction of a processor
  constexpr double kFits = 0.2;      // add a thread if n + 1 threads lack less than this fraction of a processor
  int n = now;
  while (n > 1 && n - processors_left >= kTooMany) --n;
  while (n < threads && n + 1 - processors_left < kFits) ++n;
  return n;
}

StepThreads::StepThreads(int threads, std::function<bool(int)> repeats_with)
    : threads_(threads),
      repeats_with_(std::move(repeats_with)),
      same_bits_{threads},
      watches_(threads > 1 && std::getenv("GOMP_SPINCOUNT") == nullptr && std::getenv("OMP_WAIT_POLICY") == nullptr),
      since_(std::chrono::steady_clock::now()),
      now_(threads) {
  if (watches_) others_before_ = usage().others;
}

StepThreads::~StepThreads() { at::set_num_threads(threads_); }

void StepThreads::watch() {
  constexpr double kInterval = 0.5;  // seconds; long enough to measure a tenth of a processor in ticks of 10 ms
  if (!watches_) return;
  const double seconds = core::seconds_since(since_);
  if (seconds < kInterval) return;
  const ProcessorUsage now = usage();
  since_ = std::chrono::steady_clock::now();
  const double others = (now.others - std::exchange(others_before_, now.others)) / seconds;
  if (now.processors > 0) fit(threads_that_fit(now_, now.processors - others, threads_));
}

void StepThreads::fit(int n) {
  if (n == now_) return;
  now_ = n;
  if (repeats_with_ && !same_bits_.contains(n)) {
    if (!repeats_with_(n)) repeats_with_ = nullptr;
    same_bits_.insert(n);
  }
  at::set_num_threads(repeats_with_ ? n : threads_);
  set_spinning(repeats_with_ || n == threads_);
}

void StepThreads::set_spinning(bool spin) {
  if (spin == spins()) return;
  // libgomp stops its busy waiting if all OpenMP threads, including LibTorch's, outnumber the processors.
  extra_ = spin ? nullptr : std::make_unique<ExtraThreads>(std::max(omp_get_num_procs() - threads_, 0) + 2);
}

}  // namespace folio::train
