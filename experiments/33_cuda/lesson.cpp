// The lesson's functions for the emulator, which counts the operations of kernels.
#include "experiments/33_cuda/lesson.h"

#include "core/error.h"

namespace folio::experiments {

using infer::gpu::host::Counts;
using infer::gpu::host::CountScope;

bool Lesson::counts() const { return true; }

Measured Lesson::measure(const Kernel& kernel) {
  const CountScope scope(kernel.traced);
  kernel.run();
  return {.counts = scope.counts(), .trace = scope.trace()};
}

std::vector<Measured> Lesson::table(const std::string& title, const std::vector<Kernel>& kernels,
                                    const Expected& expected) {
  std::vector<Measured> all = measure_all(title, kernels, expected);
  Report::Rows counts, limits;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const Kernel& kernel = kernels[i];
    const Counts& c = all[i].counts;
    counts.push_back({kernel.name, c.launches, c.requested_bytes(), c.load_requests + c.store_requests, c.sectors(),
                      c.distinct_sectors, c.shared_requests, c.bank_conflicts, c.barriers, c.shuffles, c.multiply_adds,
                      c.tile_products, c.divergent_branches, 100.0 * c.active_share()});
    auto& row = limits.emplace_back(std::vector<Report::Json>{kernel.name, c.block_threads, c.shared_bytes, nullptr});
    const auto registers = registers_of(kernel.symbol);
    if (registers) row.back() = *registers;
    for (const Card& card : cards()) {
      const unsigned warps = registers ? occupancy(card, c.block_threads, *registers, c.shared_bytes).warps : 0;
      registers ? row.emplace_back(100.0 * warps / card.warps) : row.emplace_back(nullptr);
    }
    for (const Card& card : cards()) row.emplace_back(1e6 * bound(card, c).seconds());
  }
  report_.table(title + ": counts",
                {"kernel", "launches", "bytes requested", "requests", "sectors", "distinct sectors", "shared requests",
                 "bank conflicts", "barriers", "shuffles", "multiply-adds", "tile products", "divergent branches",
                 "% of lanes active"},
                counts);
  std::vector<std::string> columns{"kernel", "threads a block", "shared bytes", "registers"};
  for (const Card& card : cards()) columns.push_back("% of warps, " + card.name);
  for (const Card& card : cards()) columns.push_back("bound in µs, " + card.name);
  report_.table(title + ": limits", columns, limits);
  return all;
}

void Lesson::check_error(const std::string& what, const std::string& part, const std::function<void()>& run) {
  std::string error;
  try {
    run();
  } catch (const core::Error& e) {
    error = e.what();
  }
  report_.say("the emulator: " + error);
  report_.check_equal(what + ": errors that say \"" + part + "\"", error.find(part) != std::string::npos ? 1 : 0, 1);
}

}  // namespace folio::experiments
