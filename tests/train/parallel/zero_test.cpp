// Tests train/parallel/zero.h: if optimizer state, gradients and weights are divided among ranks, training equals that
// of one process.
#include "train/parallel/zero.h"

#include <torch/utils.h>

#include <cstdlib>
#include <mutex>

#include "modules/families/parts.h"
#include "tests/modules/support.h"
#include "tests/train/parallel/support.h"
#include "train/step/step.h"

namespace folio::train::parallel {
namespace {

using torch::Tensor;

TEST(ZeroOwners, AreBalanced) {
  std::vector<Piece> pieces;
  for (const int64_t n : {100, 7, 60, 50, 40, 3, 30}) pieces.push_back({.name = "", .local = torch::empty({n})});
  pieces[5].tied_ends = true;
  assign_owners(pieces, 3);
  EXPECT_EQ(pieces[5].owner, 0);  // tied embeddings always belong to rank 0
  std::vector<int64_t> held(3, 0);
  for (const Piece& piece : pieces) held[static_cast<size_t>(piece.owner)] += piece.local.numel();
  for (const int64_t n : held) EXPECT_NEAR(static_cast<double>(n), 290.0 / 3, 15.0);
}

struct ZeroCase {
  MeshShape mesh;
  int64_t zero;
  OptimizerKind optimizer;
  bool shares_memory = true;
};
void PrintTo(const ZeroCase& c, std::ostream* out) {
  *out << fmt::format("{}_zero{}_data{}_tensor{}_pipeline{}{}", name_of(c.optimizer), c.zero, c.mesh[Axis::Data],
                      c.mesh[Axis::Tensor], c.mesh[Axis::Pipeline], c.shares_memory ? "" : "_sockets");
}

std::vector<ZeroCase> all_cases() {
  constexpr OptimizerKind kAdamW = OptimizerKind::AdamW, kMuon = OptimizerKind::Muon;
  std::vector<ZeroCase> cases;
  const auto add = [&](int64_t zero, OptimizerKind optimizer, int64_t data, int64_t tensor, int64_t pipeline) {
    cases.push_back(
        {test::mesh_of({{Axis::Data, data}, {Axis::Tensor, tensor}, {Axis::Pipeline, pipeline}}), zero, optimizer});
  };
  add(0, kAdamW, 2, 1, 1);
  add(0, kMuon, 2, 2, 1);
  for (int64_t zero = 1; zero <= 3; ++zero) {
    add(zero, kAdamW, 3, 1, 1);
    add(zero, kMuon, 3, 1, 1);
    add(zero, kMuon, 2, 2, 1);   // each tensor rank has only a part of each matrix
    add(zero, kAdamW, 2, 1, 2);  // the first and the last stage both have the tied embeddings
  }
  const size_t before = cases.size();  // the loop adds each case that uses shared memory again, with sockets
  for (size_t i = 0; i < before; ++i) {
    if (cases[i].zero >= 2 || !cases[i].mesh.is_data_alone()) continue;
    cases.push_back(cases[i]);
    cases.back().shares_memory = false;
  }
  return cases;
}

TrainConfig config_of(const ZeroCase& test) {
  TrainConfig c;
  c.model = {.vocab_size = 13,
             .dim = 12,
             .n_layers = 2,
             .n_heads = 4,
             .n_kv_heads = 2,
             .head_dim = 4,
             .hidden_dim = 20,
             .context_length = 64,
             .rope_theta = 500.0F,
             .tie_embeddings = true};
  c.batch_size = 6;
  c.window = 8;
  c.accumulation = 2;
  c.optimizer = test.optimizer;
  c.mesh.zero = test.zero;
  return c;
}

constexpr int kSteps = 3;
constexpr double kRate = 1e-2, kScale = 0.7;  // learning rate; factor for gradients, as in clipping

std::vector<data::Batch> batches_of(const TrainConfig& c, int step) {
  std::vector<data::Batch> batches;
  for (int64_t i = 0; i < c.accumulation; ++i)
    batches.push_back(test::random_batch(c, static_cast<uint64_t>(10 * step + i), false));
  return batches;
}

class ZeroStages : public testing::TestWithParam<ZeroCase> {};

TEST_P(ZeroStages, MatchTheWeightsOfOneProcess) {
  const ZeroCase& test = GetParam();
  const TrainConfig c = config_of(test);
  const auto made = [&] {
    torch::manual_seed(5);
    return folio::test::in_double(nn::family_llama(c.model, {.written_out = true}), 0.3);
  };
  nn::Llama first = made(), whole = made();
  std::vector<double> norms;
  const auto optimizer = make_optimizer(*whole, c);
  for (int step = 0; step < kSteps; ++step) {
    whole->zero_grad();
    for (const data::Batch& part : batches_of(c, step)) {
      const TensorBatch batch = to_tensors(part, torch::kCPU);
      (whole->loss(batch.inputs_BT, batch.targets_BT) / static_cast<double>(c.accumulation)).backward();
    }
    std::vector<Tensor> gradients;
    for (const Tensor& p : whole->parameters()) gradients.push_back(p.grad().flatten());
    norms.push_back(torch::cat(gradients).norm().item<double>());
    optimizer->step(kRate, kScale);
  }

  if (!test.shares_memory) ::setenv("FOLIO_RANK_TRANSPORT", "gloo", 1);
  std::mutex one_at_a_time;  // errors are printed by one rank at a time
  test::on_ranks(test.mesh, [&](World& world) {
    RankModel model(c, world, torch::kCPU, Use::Training, nullptr, torch::kDouble);
    model.load(first);
    const auto own = make_optimizer(model, c);
    for (int step = 0; step < kSteps; ++step) {
      std::vector<Tensor> chosen;
      forward_backward(model, c, batches_of(c, step), chosen);
      model.zero().finish();
      EXPECT_NEAR(model.zero().gradient_norm(), norms[static_cast<size_t>(step)], 1e-9);
      own->step(kRate, kScale);
      model.zero().share();
    }
    const std::lock_guard lock(one_at_a_time);
    const auto expected = whole->named_parameters();
    int64_t compared = 0;
    for (const Piece& piece : model.pieces()) {
      if (piece.local.numel() == 0) continue;  // another rank owns this weight
      SCOPED_TRACE(fmt::format("{}, rank {}, {}", to_string(test.mesh), world.mesh().rank(), piece.name));
      folio::test::expect_close(piece.local.detach(), part_of(expected[piece.name], piece, world.mesh()).detach(),
                                1e-9);
      compared += piece.local.numel();
    }
    EXPECT_GT(compared, 0);
    // If ZeRO is on, each data rank stores only a part of the optimizer's moments.
    int64_t state = 0, all = 0;
    for (const Optimizer::State& s : own->state()) state += s.tensor.numel();
    for (const Optimizer::State& s : optimizer->state()) all += s.tensor.numel();
    const int64_t parts = test.mesh[Axis::Tensor] * test.mesh[Axis::Pipeline];
    if (parts > 1) return;
    if (test.zero == 0) {
      EXPECT_EQ(state, all);
    } else {
      EXPECT_LT(state, 3 * all / (2 * test.mesh[Axis::Data]));
    }
  });
  ::unsetenv("FOLIO_RANK_TRANSPORT");
}

INSTANTIATE_TEST_SUITE_P(Stages, ZeroStages, testing::ValuesIn(all_cases()), testing::PrintToStringParamName());

}  // namespace
}  // namespace folio::train::parallel
