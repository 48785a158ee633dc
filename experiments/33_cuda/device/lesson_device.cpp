// The lesson's functions for a GPU, which measure the times of kernels.
#include <algorithm>

#include "experiments/33_cuda/lesson.h"

namespace folio::experiments {

using infer::gpu::Event;

bool Lesson::counts() const { return false; }

/// Runs the kernel once for its output, and then in 5 rounds of 20 runs. Returns the time per run of the fastest round.
Measured Lesson::measure(const Kernel& kernel) {
  constexpr int kRuns = 20;
  kernel.run();
  const std::vector<float> out = infer::gpu::test::on_host<float>(stream_, *kernel.out);
  Measured measured;
  measured.microseconds = 1e9;
  for (int round = 0; round < 5; ++round) {
    Event begin;
    Event end;
    begin.record(stream_);
    for (int i = 0; i < kRuns; ++i) kernel.run();
    end.record(stream_);
    measured.microseconds = std::min(measured.microseconds, 1e3 * end.since(begin) / kRuns);
  }
  // Restores the output of the first run, because the repeated runs of an in-place kernel changed it.
  stream_.copy_in(kernel.out->as<float>(), out.data(), kernel.out->bytes());
  stream_.wait();
  return measured;
}

std::vector<Measured> Lesson::table(const std::string& title, const std::vector<Kernel>& kernels,
                                    const Expected& expected) {
  std::vector<Measured> all = measure_all(title, kernels, expected);
  Report::Rows rows;
  for (size_t i = 0; i < kernels.size(); ++i) {
    rows.push_back({kernels[i].name, all[i].microseconds, kernels[i].bytes / all[i].microseconds / 1e3});
  }
  report_.table(title + ": times", {"kernel", "µs", "GB/s of bytes that must move"}, rows);
  return all;
}

void Lesson::check_error(const std::string& what, const std::string& /*part*/, const std::function<void()>& /*run*/) {
  report_.say(what + ": not run, since a card may not notice");
}

}  // namespace folio::experiments

// A stub for the linker, since steps draw pictures only on the emulator.
namespace folio::infer::gpu::host {
std::string place_of(const WarpAccess& /*access*/) { return ""; }
}  // namespace folio::infer::gpu::host
