#include "experiments/27_ranks/ranks_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "train/report/svg.h"

namespace folio::experiments {
namespace {

namespace svg = train::svg;

// The layout of the picture, in pixels.
constexpr double kLeft = 172;
constexpr double kPixel = 0.36;  // width and height of a matrix element
constexpr double kGap = 5;

constexpr size_t kRank0 = 0, kRank1 = 1, kBoth = 5;  // color indices

std::string rectangle(double x, double y, double width, double height, size_t colour) {
  return fmt::format("<path class=\"{} fill\" d=\"M{:.1f} {:.1f}h{:.1f}v{:.1f}h-{:.1f}z\"/>", svg::colour(colour), x, y,
                     width, height, width);
}

std::string legend(const std::vector<std::pair<size_t, std::string>>& entries) {
  std::string out;
  double x = 16;
  for (const auto& [colour, text] : entries) {
    out += rectangle(x, 58, 12, 12, colour) + svg::text_at(x + 18, 68, text);
    x += 18 + svg::kCharacterWidth * static_cast<double>(text.size()) + 14;
  }
  return out;
}

int64_t numel(const HeldPart& part) {
  int64_t n = 1;
  for (const int64_t size : part.shape) n *= size;
  return n;
}

const HeldPart* find(const RankRecord& record, const std::string& name) {
  const auto found = std::find_if(record.parts.begin(), record.parts.end(),
                                  [&](const HeldPart& part) { return part.name == name && numel(part) > 0; });
  return found == record.parts.end() ? nullptr : &*found;
}

// Draws a matrix of the whole model, colored by the ranks that hold each part of it.
std::string matrix(const HeldPart& whole, const HeldRow& row, double x, double y) {
  const double width = kPixel * static_cast<double>(whole.shape[1]);
  const double height = kPixel * static_cast<double>(whole.shape[0]);
  std::array<const HeldPart*, 2> parts{};
  for (size_t rank = 0; rank < 2; ++rank) {
    const HeldPart* part = find((*row.ranks)[rank], whole.name);
    if (part != nullptr && (!row.moments || part->updates)) parts[rank] = part;
  }
  if (parts[0] == nullptr || parts[1] == nullptr) {
    if (parts[0] == nullptr && parts[1] == nullptr) return "";
    return rectangle(x, y, width, height, parts[0] != nullptr ? kRank0 : kRank1);
  }
  if (parts[0]->shape == whole.shape) return rectangle(x, y, width, height, kBoth);
  if (parts[0]->shape[0] < whole.shape[0]) {  // split by rows
    return rectangle(x, y, width, height / 2 - 0.5, kRank0) +
           rectangle(x, y + height / 2 + 0.5, width, height / 2 - 0.5, kRank1);
  }
  return rectangle(x, y, width / 2 - 0.5, height, kRank0) +
         rectangle(x + width / 2 + 0.5, y, width / 2 - 0.5, height, kRank1);
}

// Shortens "layers.0.attention.wq.weight" to "wq".
std::string short_name(const std::string& name) {
  const size_t end = name.rfind('.');
  const size_t begin = name.rfind('.', end - 1);
  const std::string last = name.substr(begin == std::string::npos ? 0 : begin + 1, end - begin - 1);
  return begin == std::string::npos ? name.substr(0, end) : last;
}

}  // namespace

std::string held_picture(const RankRecord& whole, const std::vector<HeldRow>& rows) {
  std::string body = legend({{kBoth, "both ranks"}, {kRank0, "only rank 0"}, {kRank1, "only rank 1"}});
  double top = 118, right = 0.0;
  for (const HeldRow& row : rows) {
    double x = kLeft, tallest = 0.0;
    body += svg::text_at(16, top + 12, row.name, "start", "strong");
    for (const HeldPart& part : whole.parts) {
      if (part.shape.size() != 2) continue;
      const double width = kPixel * static_cast<double>(part.shape[1]);
      if (part.name.ends_with("attention.wq.weight")) x += 12;  // gap before a new layer
      if (&row == rows.data()) {
        std::string name = short_name(part.name);
        if (name == "tok_embeddings") name = "emb";
        body += svg::text_at(x + width / 2, top - 8, name, "middle");
      }
      body += matrix(part, row, x, top);
      x += width + kGap;
      tallest = std::max(tallest, kPixel * static_cast<double>(part.shape[0]));
    }
    right = std::max(right, x);
    body += "\n";
    top += tallest + 16;
  }
  return svg::document(right + 16, top, "Which rank holds which elements of the model",
                       "each matrix to scale: the embedding, which is the head, too, and two layers", body);
}

std::string bytes_picture(const std::vector<std::string>& names, const std::vector<std::vector<RankRecord>>& records) {
  constexpr double kBar = 11, kHeldWidth = 420, kSentLeft = kLeft + kHeldWidth + 40, kSentWidth = 240;
  int64_t most_held = 1, most_sent = 1;
  for (const auto& ranks : records) {
    for (const RankRecord& rank : ranks) {
      most_held = std::max(most_held, rank.parameters + rank.gradients + rank.moments);
      most_sent = std::max(most_sent, rank.sent);
    }
  }
  std::string body = legend({{0, "parameters"}, {1, "gradients"}, {2, "moments"}, {3, "sent in a step"}});
  double top = 96;
  for (size_t i = 0; i < records.size(); ++i) {
    body += svg::text_at(16, top + 12, names[i], "start", "strong");
    for (size_t rank = 0; rank < records[i].size(); ++rank) {
      const RankRecord& r = records[i][rank];
      const double y = top + (kBar + 3) * static_cast<double>(rank);
      double x = kLeft;
      size_t colour = 0;
      for (const int64_t bytes : {r.parameters, r.gradients, r.moments}) {
        const double width = kHeldWidth * static_cast<double>(bytes) / static_cast<double>(most_held);
        body += rectangle(x, y, std::max(0.0, width - 0.5), kBar, colour++);
        x += width;
      }
      const double width = kSentWidth * static_cast<double>(r.sent) / static_cast<double>(most_sent);
      body += rectangle(kSentLeft, y, width, kBar, 3) +
              svg::text_at(kSentLeft + width + 6, y + 10, fmt::format("{:.0f} KB", static_cast<double>(r.sent) / 1e3));
    }
    body += "\n";
    top += 2 * kBar + 16;
  }
  return svg::document(kSentLeft + kSentWidth + 80, top + 8, "What two ranks hold and send",
                       fmt::format("the longest bar on the left is {:.2f} MB; the upper one of two is rank 0's",
                                   static_cast<double>(most_held) / 1e6),
                       body);
}

}  // namespace folio::experiments
