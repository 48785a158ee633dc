#include "apps/cuda_bench/timing.h"

#include <algorithm>

#include "core/random.h"
#include "infer/cuda/layout.h"

namespace folio::infer::gpu::bench {
namespace {

constexpr size_t kMostCopies = 64;
constexpr size_t kMostLaunches = 512;  // maximum number of launches in a recorded graph
constexpr double kLongLaunch = 500.0;  // milliseconds; a longer launch is timed only once
constexpr size_t kPiece = size_t{1} << 20U;

}  // namespace

size_t copies_of(size_t bytes, const Effort& effort) {
  return std::clamp<size_t>(ceil_div(effort.spread_bytes, std::max<size_t>(bytes, 1)), 1, kMostCopies);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

double microseconds(Stream& stream, const Effort& effort, size_t n_copies,
                    const std::function<void(size_t copy)>& launch) {
  Event start;
  Event end;
  const auto timed = [&](const auto& run) {
    start.record(stream);
    run();
    end.record(stream);
    return end.since(start);
  };
  launch(0);  // loads the kernel, which takes longer than a launch
  stream.wait();
  const double once = timed([&] { launch(n_copies - 1); });
  if (once > kLongLaunch) return once * 1e3;
  const auto n = static_cast<size_t>(
      std::clamp(effort.milliseconds / std::max(once, 1e-3), 1.0, static_cast<double>(kMostLaunches)));
  stream.begin_recording();
  for (size_t i = 0; i < n; ++i) launch(i % n_copies);
  Recording recording = stream.end_recording();
  const auto run = [&] { stream.run(recording); };
  std::vector<double> times;
  timed(run);
  for (int i = 0; i < effort.repetitions; ++i) times.push_back(timed(run) * 1e3 / static_cast<double>(n));
  stream.wait();
  return median(times);
}

DeviceMemory repeated(Stream& stream, size_t bytes, std::span<const uint8_t> piece) {
  DeviceMemory memory(stream, bytes);
  auto* to = memory.as<uint8_t>();
  size_t filled = std::min(bytes, piece.size());
  stream.copy_in(to, piece.data(), filled);
  while (filled < bytes) {  // each pass doubles the filled part
    const size_t more = std::min(filled, bytes - filled);
    stream.copy_within(to + filled, to, more);
    filled += more;
  }
  stream.wait();
  return memory;
}

DeviceMemory random_floats(Stream& stream, size_t n, uint64_t seed) {
  std::vector<float> values(std::min(n, kPiece));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(2.0 * core::random_uniform(seed, i) - 1.0);
  }
  return repeated(stream, n * sizeof(float),
                  {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)});
}

DeviceMemory zeros(Stream& stream, size_t bytes) {
  DeviceMemory memory(stream, bytes);
  stream.fill(memory.as<void>(), 0, bytes);
  stream.wait();
  return memory;
}

}  // namespace folio::infer::gpu::bench
