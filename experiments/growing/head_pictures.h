// Heat maps of a trained model's attention heads: each row shows the weights of one position on itself and on all
// earlier characters.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/common/heat_map.h"
#include "experiments/common/report.h"
#include "experiments/common/shakespeare.h"
#include "experiments/growing/05_heads.h"

namespace folio::growing {

// Returns the attention weights, [H, T, T], of each attention layer in order; an empty list if there is none.
inline std::vector<Tensor> heads_weights(Model& model, Text window) {
  const torch::NoGradGuard no_grad;
  model.forward(torch::tensor(std::vector<int64_t>(window.begin(), window.end())).unsqueeze(0));
  std::vector<Tensor> weights;
  for (const auto& module : model.modules()) {
    if (const auto* one = dynamic_cast<const Head*>(module.get())) weights.push_back(one->weights_BTT);
    if (const auto* several = dynamic_cast<const Heads*>(module.get())) weights.push_back(several->weights_BHTT[0]);
  }
  return weights;
}

// Formats two mean attention weights of each head, in percent: of a position on itself, and on the last four positions
// including itself. Skips the first eight positions, which have little context.
inline std::string how_near(const Tensor& weights_HTT) {
  const Tensor later_HST = weights_HTT.slice(1, 8);
  const auto percent = [&](int64_t last) {  // mean weights on the last `last` characters
    const Tensor near_HST = later_HST.tril(8) - later_HST.tril(8 - last);
    const Tensor mean_H = (100.0 * near_HST.sum(2).mean(1)).to(torch::kDouble).contiguous();
    return fmt::format("{:.0f}",
                       fmt::join(mean_H.data_ptr<double>(), mean_H.data_ptr<double>() + mean_H.size(0), ", "));
  };
  return fmt::format("weight on itself {} %, on the last four {} %", percent(1), percent(4));
}

// Writes pictures of all heads: heads_05.svg for rung 5, or heads_10_block_1.svg and so on if there are several blocks.
inline void draw_heads(experiments::Report& report, int rung, const std::string& name, Model& model,
                       const experiments::Shakespeare& text, Text window) {
  std::vector<std::string> characters;
  for (const int32_t c : window) {
    const std::string& character = text.tokenizer.token_bytes(c);
    characters.push_back(character == "\n" ? "⏎" : character == " " ? "␣" : character);
  }
  const std::vector<Tensor> blocks = heads_weights(model, window);
  for (size_t block = 0; block < blocks.size(); ++block) {
    const std::string of_block = blocks.size() > 1 ? fmt::format(", block {}", block + 1) : "";
    experiments::HeatMap map{.title = fmt::format("Rung {}, {}{}: what each head looks at", rung, name, of_block),
                             .subtitle = "weight of each earlier character; each row has the sum 1",
                             .row_label = "the position",
                             .column_label = "looks at",
                             .panels_per_row = 2};
    report.say(fmt::format("  heads of {}{}: {}", name, of_block, how_near(blocks[block])));
    const auto T = static_cast<int64_t>(window.size());
    for (int64_t h = 0; h < blocks[block].size(0); ++h) {
      const Tensor w_TT = blocks[block][h].to(torch::kDouble).contiguous();
      const auto* first = w_TT.data_ptr<double>();
      map.panels.push_back({.title = fmt::format("head {}", h + 1),
                            .rows = T,
                            .columns = T,
                            .values = {first, first + T * T},
                            .row_names = characters,
                            .column_names = characters});
    }
    report.picture(fmt::format("heads_{:02}{}.svg", rung, blocks.size() > 1 ? fmt::format("_block_{}", block + 1) : ""),
                   map);
  }
}

}  // namespace folio::growing
