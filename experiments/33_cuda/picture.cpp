#include "experiments/33_cuda/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "train/report/svg.h"

namespace folio::experiments {
namespace {

namespace svg = train::svg;
using infer::gpu::host::WarpAccess;

constexpr double kLeft = 24;
constexpr double kWidth = 928;  // width of a row of 32 sectors or 32 banks, in pixels
constexpr double kUnit = kWidth / 32;
constexpr double kHeight = 13;
constexpr double kTop = 78;

std::string cell(double x, double y, double width, const std::string& classes) {
  return fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="{}"/>)", x, y, width,
                     kHeight - 3, classes);
}

/// Returns, for each four-byte word of the access, the first lane that accesses it. Keys are addresses divided by 4.
std::map<uint64_t, unsigned> words_of(const WarpAccess& a) {
  std::map<uint64_t, unsigned> lanes;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((a.active >> lane & 1U) == 0) continue;
    for (uint64_t word = a.address[lane] / 4; word * 4 < a.address[lane] + a.bytes; ++word) lanes.emplace(word, lane);
  }
  return lanes;
}

std::set<uint64_t> sectors_of(const std::map<uint64_t, unsigned>& words) {
  std::set<uint64_t> sectors;
  for (const auto& [word, lane] : words) sectors.insert(word / 8);
  return sectors;
}

/// Draws an access to device memory as rows of sectors, from height `y` down, and sets y to the bottom of the last row.
std::string device_row(const WarpAccess& a, double& y) {
  const auto words = words_of(a);
  std::string body;
  double x = kLeft;
  for (const uint64_t sector : sectors_of(words)) {
    if (x > kLeft + kWidth - 1) {
      x = kLeft;
      y += kHeight;
    }
    body += cell(x, y, kUnit - 4, "card grid");
    for (uint64_t word = 8 * sector; word < 8 * sector + 8; ++word) {
      const auto found = words.find(word);
      if (found == words.end()) continue;
      body += cell(x + static_cast<double>(word % 8) * (kUnit - 4) / 8, y, (kUnit - 4) / 8,
                   svg::colour(found->second / 8) + " fill");
    }
    x += kUnit;
  }
  y += kHeight;
  return body;
}

std::string shared_row(const WarpAccess& a, double& y) {
  std::string body;
  std::map<uint64_t, unsigned> used;  // words served so far in each bank
  unsigned lines = 1;
  for (const auto& [word, lane] : words_of(a)) {
    const unsigned line = used[word % 32]++;
    lines = std::max(lines, line + 1);
    body += cell(kLeft + static_cast<double>(word % 32) * kUnit, y + line * kHeight, kUnit - 4,
                 svg::colour(lane / 8) + " fill");
  }
  y += lines * kHeight;
  return body;
}

std::string caption(const WarpAccess& a) {
  const auto words = words_of(a);
  std::map<uint64_t, unsigned> banks;
  unsigned most = 0;
  for (const auto& [word, lane] : words) most = std::max(most, ++banks[word % 32]);
  const std::string at = fmt::format("{} at {}", a.store ? "store" : "load", place_of(a));
  if (a.shared) return fmt::format("shared {}: at most {} words of one bank", at, most);
  const size_t n_sectors = sectors_of(words).size();
  return fmt::format("{}: {} sectors, {} of {} bytes used", at, n_sectors, 4 * words.size(), 32 * n_sectors);
}

}  // namespace

std::string who_reads(const std::string& title, const std::vector<AccessPanel>& panels) {
  std::string body;
  double y = kTop;
  for (const AccessPanel& panel : panels) {
    body += svg::text_at(kLeft, y, panel.name, "start", "strong");
    y += 8;
    for (size_t i = 0; i < std::min(panel.shown, panel.accesses.size()); ++i) {
      const WarpAccess& a = panel.accesses[i];
      y += 12;
      body += svg::text_at(kLeft, y, caption(a));
      y += 7;
      body += a.shared ? shared_row(a, y) : device_row(a, y);
      y += 8;
    }
    y += 22;
  }
  return svg::document(kLeft * 2 + kWidth, y, title, "one access of a warp; a color for each eight of its 32 lanes",
                       body);
}

}  // namespace folio::experiments
