// Tests train/parallel/pipeline.h: outputs and gradients equal those of one process, for any schedule of the pipeline.
#include "train/parallel/pipeline.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "tests/modules/support.h"
#include "tests/train/parallel/support.h"

namespace folio::train::parallel {
namespace {

using folio::test::expect_close;
using folio::test::randn;
using test::on_ranks;
using torch::Tensor;

constexpr int64_t kWidth = 3;

// A model with stages y = tanh(x w), [2, kWidth]. The loss is the last stage's Σ y², averaged over microbatches.
struct Model {
  std::vector<Tensor> weights;  // of each stage, [kWidth, kWidth]
  std::vector<Tensor> inputs;   // of each microbatch, [2, kWidth]

  Model(int64_t n_stages, int64_t n_microbatches) {
    torch::manual_seed(5);
    for (int64_t i = 0; i < n_stages; ++i) weights.push_back(randn({kWidth, kWidth}));
    for (int64_t i = 0; i < n_microbatches; ++i) inputs.push_back(randn({2, kWidth}));
  }
  [[nodiscard]] Tensor objective(const Tensor& y) const {
    return y.square().sum() / static_cast<double>(inputs.size());
  }
};

struct Results {
  double loss = 0.0;
  std::vector<Tensor> gradients;
};

Results of_one_process(const Model& model) {
  Results results;
  std::vector<Tensor> w;
  for (const Tensor& weight : model.weights) w.push_back(weight.clone().requires_grad_());
  for (const Tensor& input : model.inputs) {
    Tensor x = input;
    for (const Tensor& weight : w) x = x.mm(weight).tanh();
    const Tensor objective = model.objective(x);
    objective.backward();
    results.loss += objective.item<double>();
  }
  for (const Tensor& weight : w) results.gradients.push_back(weight.grad());
  return results;
}

void expect_as_in_one_process(int64_t n_ranks, int64_t n_chunks, int64_t n_microbatches) {
  SCOPED_TRACE(testing::Message() << n_ranks << " ranks, " << n_chunks << " chunks, " << n_microbatches);
  const int64_t n_stages = n_ranks * n_chunks;
  const Model model(n_stages, n_microbatches);
  const Results expected = of_one_process(model);
  Results actual{.loss = 0.0, .gradients = std::vector<Tensor>(static_cast<size_t>(n_stages))};
  std::vector<double> evaluated(static_cast<size_t>(n_ranks));  // loss of the evaluation, by rank
  std::vector<double> loss(static_cast<size_t>(n_ranks));

  on_ranks(test::mesh_of({{Axis::Pipeline, n_ranks}}), [&](World& world) {
    Group& line = world.along({Axis::Pipeline});
    const auto stage_of = [&](int64_t chunk) { return static_cast<size_t>(chunk * n_ranks + line.index()); };
    std::vector<Tensor> w;
    for (int64_t c = 0; c < n_chunks; ++c) w.push_back(model.weights[stage_of(c)].clone().requires_grad_());
    double sum = 0.0;
    const StageWork work{
        .shape = {2, kWidth},
        .type = torch::kDouble,
        .forward = [&](int64_t chunk, int64_t microbatch, const Tensor& x) {
          const bool first = stage_of(chunk) == 0;
          EXPECT_EQ(x.defined(), !first);
          const Tensor y =
              (first ? model.inputs[static_cast<size_t>(microbatch)] : x).mm(w[static_cast<size_t>(chunk)]).tanh();
          if (stage_of(chunk) + 1 < static_cast<size_t>(n_stages)) return y;
          const Tensor objective = model.objective(y);
          sum += objective.item<double>();
          return objective;
        }};
    const auto rank = static_cast<size_t>(line.index());
    {
      const torch::NoGradGuard no_grad;
      run_pipeline(interleaved(n_ranks, n_chunks, n_microbatches)[rank], n_chunks, work, line);
    }
    evaluated[rank] = std::exchange(sum, 0.0);
    for (const Tensor& weight : w) EXPECT_FALSE(weight.grad().defined());
    run_pipeline(interleaved(n_ranks, n_chunks, n_microbatches)[rank], n_chunks, work, line);
    loss[rank] = sum;
    for (int64_t c = 0; c < n_chunks; ++c) actual.gradients[stage_of(c)] = w[static_cast<size_t>(c)].grad();
    // For each microbatch, a stage sends x on twice (training, evaluation) and dx back once, 8 bytes per value.
    const int64_t borders = n_chunks - (line.index() == n_ranks - 1 ? 1 : 0);
    const int64_t back = n_chunks - (line.index() == 0 ? 1 : 0);
    EXPECT_EQ(line.bytes_sent(), (2 * borders + back) * n_microbatches * 2 * kWidth * 8);
  });

  EXPECT_EQ(loss.back(), expected.loss);
  EXPECT_EQ(evaluated.back(), expected.loss);
  for (size_t i = 0; i < expected.gradients.size(); ++i) {
    // Gradients are summed over microbatches in the same order, so they are equal.
    EXPECT_TRUE(actual.gradients[i].equal(expected.gradients[i])) << "stage " << i;
  }
}

TEST(Pipeline, LossAndGradientsMatchOneProcess) {
  for (const int64_t n_ranks : {2, 3, 4}) {
    for (const int64_t n_chunks : {1, 2}) {
      for (const int64_t n_microbatches : {1, 2, 5}) expect_as_in_one_process(n_ranks, n_chunks, n_microbatches);
    }
  }
}

}  // namespace
}  // namespace folio::train::parallel
