#include <fmt/format.h>
#include <torch/types.h>

#include "train/parallel/costs.h"
#include "train/profile/profile.h"

namespace folio::train {
namespace {

using torch::Tensor;

double megabytes(double bytes) { return bytes / 1e6; }

double bytes_of(const Tensor& x) { return x.defined() ? static_cast<double>(x.nbytes()) : 0.0; }

// Formats a measured and a predicted value in MB, such as "1.230 (1.240)".
std::string cell(double measured, double formula) {
  return fmt::format("{:>17}", fmt::format("{:.3f} ({:.3f})", megabytes(measured), megabytes(formula)));
}

}  // namespace

std::string measure_rank_costs(Trainer& trainer, MemoryUse& memory) {
  constexpr int64_t kWarmUp = 2, kSteps = 4;
  parallel::RankModel& ranks = trainer.part();
  for (int64_t i = 0; i < kWarmUp; ++i) trainer.step();
  memory.reset_peak();
  const int64_t sent_before = ranks.world().bytes_sent();
  for (int64_t i = 0; i < kSteps; ++i) trainer.step();

  enum Column { kParameters, kGradients, kOptimizer, kBetween, kPeak, kSent, kColumns };
  const Tensor row = torch::zeros({1, kColumns}, torch::kDouble);
  for (const parallel::Piece& piece : ranks.pieces()) {
    row[0][kParameters] += bytes_of(piece.local);
    row[0][kGradients] += bytes_of(piece.local.grad());
  }
  for (const Optimizer::State& state : trainer.optimizer().state()) row[0][kOptimizer] += bytes_of(state.tensor);
  row[0][kBetween] = static_cast<double>(memory.bytes());
  row[0][kPeak] = static_cast<double>(memory.peak());
  row[0][kSent] = static_cast<double>(ranks.world().bytes_sent() - sent_before) / static_cast<double>(kSteps);
  const Tensor rows = ranks.world().everyone().gather(row, 0);
  if (!ranks.world().is_first()) return {};

  const parallel::MeshShape& shape = ranks.world().mesh().shape();
  std::string table = fmt::format("{}, zero {}: MB, with the predictions of train/parallel/costs.h in parentheses\n",
                                  to_string(shape), trainer.config().mesh.zero);
  table += fmt::format("{:>4}{:>17}{:>17}{:>17}{:>17}{:>14}{:>14}\n", "rank", "parameters", "gradients", "optimizer",
                       "sent per step", "between steps", "peak in step");
  const auto costs_of_rank = [&](int64_t rank) { return costs_of(trainer.config(), parallel::Mesh(shape, rank)); };
  for (int64_t rank = 0; rank < shape.n_ranks(); ++rank) {
    const parallel::Costs costs = costs_of_rank(rank);
    const auto value = [&](Column column) { return rows[rank][column].item<double>(); };
    table += fmt::format("{:>4}{}{}{}{}{:>14.3f}{:>14.3f}\n", rank, cell(value(kParameters), costs.parameters),
                         cell(value(kGradients), costs.gradients), cell(value(kOptimizer), costs.optimizer),
                         cell(value(kSent), costs.bytes_sent()), megabytes(value(kBetween)), megabytes(value(kPeak)));
  }
  for (const auto& [what, bytes] : costs_of_rank(0).sent)
    table += fmt::format("rank 0 sends, predicted: {:.3f} MB, {}\n", megabytes(bytes), what);
  return table;
}

}  // namespace folio::train
