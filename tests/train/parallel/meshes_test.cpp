// Tests all kinds of parallelism together: on every mesh of at most eight ranks, which are threads, the loss and every
// parameter's gradient in double equal those of one process.
#include <torch/utils.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "modules/families/parts.h"
#include "tests/core/model_shapes.h"
#include "tests/core/support.h"
#include "tests/modules/support.h"
#include "tests/train/parallel/support.h"
#include "train/parallel/parts.h"
#include "train/parallel/rank_model.h"
#include "train/step/balance.h"
#include "train/step/step.h"

namespace folio::train::parallel {
namespace {

using torch::Tensor;

constexpr int64_t kMostRanks = 8;

// Returns the shapes of all meshes of at most kMostRanks ranks.
std::vector<MeshShape> all_meshes() {
  std::vector<MeshShape> meshes{MeshShape{}};
  for (const Axis axis : kAxes) {
    const size_t before = meshes.size();
    for (size_t i = 0; i < before; ++i) {
      for (int64_t n = 2; n * meshes[i].n_ranks() <= kMostRanks; ++n) {
        MeshShape wider = meshes[i];
        wider[axis] = n;
        meshes.push_back(wider);
      }
    }
  }
  return meshes;
}

// Returns a configuration of a model that can be divided on the mesh. If `experts`, it is a Qwen3-MoE, whose queries
// and keys are normalized, or, if `latent`, a DeepSeek-V3, with its balancing loss unless there are tensor or pipeline
// ranks. Otherwise it is a Llama, or with three tensor or context ranks a Qwen2, which has biases; both with tied
// embeddings. Three context ranks have chunks of one position per tensor rank, other ranks have more.
TrainConfig config_for(const MeshShape& mesh, bool experts, bool latent = false) {
  const int64_t t = mesh[Axis::Tensor];
  TrainConfig c;
  c.model = {.vocab_size = 13,
             .dim = 12,
             .n_layers = 2 * mesh[Axis::Pipeline],
             .n_heads = 2 * t,
             .n_kv_heads = t,
             .head_dim = 4,
             .hidden_dim = 6 * t,
             .context_length = 64,
             .rope_theta = 500.0F,
             .tie_embeddings = !experts};
  if (!experts && (t == 3 || mesh[Axis::Context] == 3)) c.model.family = core::Family::Qwen2;
  if (experts) {
    // There must be more experts than a token selects. Otherwise, the balancing loss has no gradient.
    core::test::add_experts(c.model, latent ? core::Family::DeepseekV3 : core::Family::Qwen3Moe,
                            std::max<int64_t>(4, 2 * mesh[Axis::Expert]), 8);
    c.model.n_kv_heads = 2 * t;
  }
  if (latent) {
    core::test::add_latent(c.model, {.kv_rank = 5, .query_rank = 6, .nope = 3, .rope = 4, .value = 2});
    c.model.shared_dim = 8;
    c.balance = Balance::Bias;
    c.balance_loss = mesh[Axis::Pipeline] * mesh[Axis::Tensor] > 1 ? 0.0 : 0.1;
  }
  c.batch_size = 2 * mesh[Axis::Data] * mesh[Axis::Expert];
  c.window = (mesh[Axis::Context] > 1 ? 2 * mesh[Axis::Context] : 1) * t * (mesh[Axis::Context] == 3 ? 1 : 3);
  c.accumulation = 3;
  c.balance_rate = mesh[Axis::Pipeline] > 1 ? 0.0 : 0.1;
  return c;
}

struct Expected {
  double loss = 0.0, mtp_loss = 0.0;
  std::map<std::string, Tensor> gradients;
};

// Returns the loss and gradients of one process with plain modules, summed over batches. The weight of a batch's loss
// is its fraction of all targets that are not ignored.
Expected of_one_process(nn::Llama& model, const TrainConfig& c, const std::vector<data::Batch>& batches) {
  Expected expected;
  double n_counted = 0.0;
  for (const data::Batch& batch : batches) n_counted += static_cast<double>(batch.n_counted());
  std::vector<nn::Mixture> mixtures = nn::mixtures_of(*model);
  const auto n_ahead = [](const data::Batch& batch) {
    const TensorBatch tensors = to_tensors(batch, torch::kCPU);
    return (nn::targets_ahead(tensors.targets_BT, tensors.starts_BT) >= 0).sum().item<double>();
  };
  double n_all_ahead = 0.0;
  for (const data::Batch& batch : batches) n_all_ahead += n_ahead(batch);
  for (const data::Batch& part : batches) {
    const TensorBatch batch = to_tensors(part, torch::kCPU);
    if (c.model.n_tokens_ahead > 0) {
      const auto [next, after_next] =
          model->as<nn::LlamaAhead>()->losses(batch.inputs_BT, batch.targets_BT, batch.starts_BT);
      const Tensor ahead = after_next * (n_ahead(part) / n_all_ahead);
      expected.mtp_loss += ahead.item<double>();
      (c.mtp_weight * ahead).backward();
      static_cast<void>(take_loads(mixtures));  // discard: the second pass, below, computes the balancing losses
    }
    const Tensor loss = model->loss(batch.inputs_BT, batch.targets_BT, batch.starts_BT) *
                        (static_cast<double>(part.n_counted()) / n_counted);
    expected.loss += loss.item<double>();
    Tensor objective = loss;
    const auto n_batches = static_cast<double>(batches.size());
    const Loads loads = take_loads(mixtures);
    if (!mixtures.empty() && c.balance == Balance::Loss && c.balance_rate > 0.0) {
      objective = objective + train::balance_loss(loads) * (c.balance_rate / n_batches);
    }
    if (c.balance_loss > 0.0) {
      objective = objective + sequence_balance_loss(loads, c.model.experts_per_token) * (c.balance_loss / n_batches);
    }
    objective.backward();
  }
  for (const auto& parameter : model->named_parameters()) {
    if (parameter.value().grad().defined()) expected.gradients[parameter.key()] = parameter.value().grad().clone();
  }
  return expected;
}

struct MeshCase {
  MeshShape mesh;
  bool experts;
  int64_t chunks = 1;
  bool latent = false, ahead = false;
};
void PrintTo(const MeshCase& c, std::ostream* out) {
  *out << (c.latent ? "latent" : c.experts ? "experts" : "dense");
  for (const Axis axis : kAxes) {
    if (c.mesh[axis] > 1) *out << "_" << name_of(axis) << c.mesh[axis];
  }
  *out << (c.chunks > 1 ? "_interleaved" : "") << (c.ahead ? "_ahead" : "");
}

std::vector<MeshCase> cases_on(const MeshShape& mesh) {
  std::vector<MeshCase> cases;
  if (mesh[Axis::Expert] == 1) cases.push_back({mesh, false});
  cases.push_back({mesh, true});
  if (mesh[Axis::Context] == 1) cases.push_back({mesh, true, 1, true});
  if (mesh[Axis::Pipeline] > 1) cases.push_back({mesh, true, 2});
  if (mesh[Axis::Data] * mesh[Axis::Expert] != mesh.n_ranks()) return cases;
  if (mesh[Axis::Expert] == 1) cases.push_back({mesh, false, 1, false, true});
  cases.push_back({mesh, true, 1, true, true});
  return cases;
}

class Meshes : public testing::TestWithParam<MeshCase> {};

TEST_P(Meshes, MatchLossAndGradientsOfOneProcess) {
  const auto& [mesh, experts, chunks, latent, ahead] = GetParam();
  TrainConfig c = config_for(mesh, experts, latent);
  if (ahead) c.model.n_tokens_ahead = 1;
  if (!experts && mesh[Axis::Context] == 1) c.across_documents = AcrossDocuments::Mask;  // packs sequences
  c.balance_loss = ahead ? 0.0 : c.balance_loss;              // of_one_process() doesn't balance the MTP module
  if (chunks > 1) c.accumulation = 2 * mesh[Axis::Pipeline];  // must be a multiple of the number of stages
  c.mesh.pipeline_chunks = chunks;
  torch::manual_seed(5);
  auto whole = folio::test::in_double(nn::family_llama(c.model, {.written_out = true}), 0.3);
  std::vector<data::Batch> batches;
  for (int64_t i = 0; i < c.accumulation; ++i)
    batches.push_back(test::random_batch(c, static_cast<uint64_t>(70 + i), true));
  const Expected expected = of_one_process(whole, c, batches);

  std::mutex one_at_a_time;  // errors are printed by one rank at a time
  test::on_ranks(mesh, [&](World& world) {
    RankModel model(c, world, torch::kCPU, Use::Training, nullptr, torch::kDouble);
    model.load(whole);
    std::vector<Tensor> chosen;
    const auto [loss, mtp_loss] = forward_backward(model, c, batches, chosen);
    std::vector<Tensor> gradients;
    for (const Piece& piece : model.pieces()) {
      const Tensor gradient = gradients.emplace_back(piece.local.grad());
      if (!gradient.defined()) continue;
      world.along(piece.copies()).sum(gradient);
      if (piece.tied_ends) world.ends_of_pipeline().sum(gradient);
      gradients.back() = whole_of(gradient, piece, world);
    }

    const std::lock_guard lock(one_at_a_time);
    const auto where = fmt::format("{}, rank {}", to_string(mesh), world.mesh().rank());
    EXPECT_NEAR(loss, expected.loss, 1e-9) << where;
    EXPECT_NEAR(mtp_loss.value_or(0.0), expected.mtp_loss, 1e-9) << where;
    for (size_t i = 0; i < gradients.size(); ++i) {
      const std::string& name = model.pieces()[i].name;
      if (!gradients[i].defined()) continue;
      SCOPED_TRACE(where + ", " + name);
      const Tensor& right = expected.gradients.at(name);
      folio::test::expect_close(gradients[i], right, 1e-9 * std::max(1.0, folio::test::largest(right)));
    }
  });
}

// Returns the cases with more than four ranks if `more`, else those with up to four. Every kind of model is tested on
// meshes with up to four ranks or with at least three parallel dimensions, and with `make long` on all. On each other
// mesh, only one kind is tested, in turn.
std::vector<MeshCase> cases_of(bool more) {
  std::vector<MeshCase> cases;
  size_t turn = 0;
  for (const MeshShape& mesh : all_meshes()) {
    if ((mesh.n_ranks() > 4) != more) continue;
    const std::vector<MeshCase> of_mesh = cases_on(mesh);
    const auto n_dimensions = std::count_if(kAxes.begin(), kAxes.end(), [&](Axis axis) { return mesh[axis] > 1; });
    if (!more || n_dimensions > 2 || std::getenv("FOLIO_LONG") != nullptr) {
      cases.insert(cases.end(), of_mesh.begin(), of_mesh.end());
    } else {
      cases.push_back(of_mesh[turn++ % of_mesh.size()]);
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(UpToFourRanks, Meshes, testing::ValuesIn(cases_of(false)), testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(FiveToEightRanks, Meshes, testing::ValuesIn(cases_of(true)),
                         testing::PrintToStringParamName());

TEST(Mesh, IsDescribedByItsDimensions) {
  EXPECT_EQ(to_string(test::mesh_of({{Axis::Data, 2}, {Axis::Tensor, 3}})), "data 2 × tensor 3");
}

TEST(MeshOnGpus, RejectsWhatNcclCannotSend) {
  TrainConfig c = config_for(test::mesh_of({{Axis::Data, 2}}), false);
  c.mesh.pipeline = 2;
  EXPECT_NO_THROW(validate(c));
  c.device = DeviceKind::Cuda;
  EXPECT_ERROR(validate(c), "--pipeline-parallel does not support --device cuda: NCCL requires a fixed order");
  c.mesh = {.context = 2};
  c.window = 4;
  EXPECT_ERROR(validate(c), "--context-parallel supports only CPUs");
  c.mesh = {.data = 2};
  if (!has_nccl()) {
    World world(nullptr, test::mesh_of({{Axis::Data, 2}}), 0);
    EXPECT_ERROR(RankModel(c, world), "require NCCL, which this build lacks");
  }
}

TEST(ContextMesh, RejectsWindowsOfSeveralSequences) {
  TrainConfig c = config_for(MeshShape{}, false);
  c.mesh = {.context = 2};
  c.window = 4;
  EXPECT_NO_THROW(validate(c, {.text = "book.txt"}));
  EXPECT_ERROR(validate(c, {.conversations = "chats.jsonl"}), "which conversations have");
  c.across_documents = AcrossDocuments::Mask;
  EXPECT_ERROR(validate(c, {.text = "book.txt"}), "which --across-documents mask creates");
}

// Other blocks than fused ones would keep all activations.
TEST(Recompute, IsRejectedWithoutFusedBlocks) {
  TrainConfig c = config_for(MeshShape{}, false);
  c.recompute = true;
  World alone(nullptr, MeshShape{}, 0);
  EXPECT_NO_THROW(RankModel(c, alone));
  c.model.family = core::Family::Qwen3;
  EXPECT_ERROR(RankModel(c, alone), "--recompute");
}

}  // namespace
}  // namespace folio::train::parallel
