#include "experiments/27_ranks/two_ranks.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <nlohmann/json.hpp>
#include <set>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "core/error.h"
#include "core/file_io.h"
#include "train/parallel/world.h"
#include "train/run/trainer.h"

namespace folio::experiments {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HeldPart, name, shape, updates)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankRecord, parameters, gradients, moments, sent, losses, parts)

namespace {

using train::parallel::Axis;
using Json = nlohmann::json;

constexpr std::chrono::seconds kTimeout(60);

int64_t bytes_of(const torch::Tensor& x) { return x.defined() ? static_cast<int64_t>(x.nbytes()) : 0; }

RankRecord record_of(train::Trainer& trainer) {
  RankRecord record;
  train::parallel::RankModel& ranks = trainer.part();
  int64_t before = 0;
  while (trainer.state().step < trainer.config().steps) {
    before = ranks.world().bytes_sent();
    record.losses.push_back(trainer.step().loss);
  }
  record.sent = ranks.world().bytes_sent() - before;
  std::set<std::string> updated;
  for (const train::Trained& trained : train::Parameters(ranks).all) updated.insert(trained.name);
  for (const train::parallel::Piece& piece : ranks.pieces()) {
    record.parameters += bytes_of(piece.local);
    record.gradients += bytes_of(piece.local.grad());
    record.parts.push_back({piece.name, piece.local.sizes().vec(), updated.contains(piece.name)});
  }
  for (const train::Optimizer::State& state : trainer.optimizer().state()) record.moments += bytes_of(state.tensor);
  return record;
}

std::filesystem::path file_of(const std::filesystem::path& directory, int64_t rank) {
  return directory / fmt::format("rank-{}.json", rank);
}

}  // namespace

std::vector<Division> divisions() {
  const auto two = [](Axis axis) {
    train::parallel::MeshShape shape;
    shape[axis] = 2;
    return shape;
  };
  std::vector<Division> all{{.name = "data", .mesh = two(Axis::Data)}};
  for (const int64_t stage : {1, 2, 3}) {
    all.push_back({.name = fmt::format("data, --zero {}", stage), .mesh = two(Axis::Data), .zero = stage});
  }
  all.push_back({.name = "tensor", .mesh = two(Axis::Tensor)});
  all.push_back({.name = "context", .mesh = two(Axis::Context)});
  all.push_back({.name = "pipeline", .mesh = two(Axis::Pipeline)});
  all.push_back({.name = "expert", .mesh = two(Axis::Expert), .of_experts = true});
  return all;
}

train::TrainConfig ranks_config(bool with_experts, uint64_t seed, int64_t steps) {
  train::TrainConfig c;
  c.model = {.family = with_experts ? core::Family::Mixtral : core::Family::Llama,
             .dim = 64,
             .n_layers = 2,
             .n_heads = 4,
             .n_kv_heads = 4,
             .hidden_dim = 176,
             .context_length = 32};
  if (with_experts) {
    c.model.n_experts = 4;
    c.model.experts_per_token = 2;
    c.model.expert_dim = 88;
    c.model.normalize_routes = true;
  }
  c.steps = steps;
  c.seed = seed;
  c.batch_size = 4;
  c.accumulation = 4;
  c.window = 32;
  c.lr = 1e-3;
  c.schedule = train::ScheduleKind::Constant;
  c.warmup_steps = 10;
  c.sample = 0;
  return c;
}

train::TextDataset dataset_for(const train::TrainConfig& config) {
  const data::TextFiles texts = data::find_texts({"tinyshakespeare"});
  return train::TextDataset(texts, data::summarize(texts.documents), config);
}

std::vector<double> train_alone(const train::TrainConfig& config) {
  const train::TextDataset dataset = dataset_for(config);
  train::Trainer trainer(config, dataset);
  std::vector<double> losses;
  while (trainer.state().step < config.steps) losses.push_back(trainer.step().loss);
  return losses;
}

void train_as_rank(const train::parallel::Launch& launch, uint64_t seed, int64_t steps,
                   const std::filesystem::path& directory) {
  const auto store = connect_store(launch, /*may_serve=*/true, kTimeout);
  Json records = Json::array();
  for (const Division& division : divisions()) {
    train::TrainConfig config = ranks_config(division.of_experts, seed, steps);
    config.mesh = {.data = division.mesh[Axis::Data],
                   .tensor = division.mesh[Axis::Tensor],
                   .pipeline = division.mesh[Axis::Pipeline],
                   .context = division.mesh[Axis::Context],
                   .expert = division.mesh[Axis::Expert],
                   .zero = division.zero};
    const train::TextDataset dataset = dataset_for(config);
    // Each division has its own key prefix in the store, because all divisions use the same process group names.
    train::parallel::World world(c10::make_intrusive<c10d::PrefixStore>(division.name, store), division.mesh,
                                 launch.rank, kTimeout);
    train::Trainer trainer(config, dataset, {}, &world);
    records.push_back(record_of(trainer));
    world.everyone().meet();  // barrier: rank 0 hosts the store and must not exit first
  }
  core::write_file_atomically(file_of(directory, launch.rank), records.dump());
}

std::vector<std::vector<RankRecord>> read_records(const std::filesystem::path& directory) {
  std::vector<std::vector<RankRecord>> records(divisions().size());
  for (const int64_t rank : {0, 1}) {
    const Json of_rank = Json::parse(core::read_text_file(file_of(directory, rank)));
    for (size_t i = 0; i < records.size(); ++i) {
      for (const Json& loss : of_rank.at(i).at("losses")) {  // JSON has null for numbers that are not finite
        core::require(!loss.is_null(), "{}: a loss of rank {} is not finite; try another --seed", divisions()[i].name,
                      rank);
      }
      records[i].push_back(of_rank.at(i).get<RankRecord>());
    }
  }
  return records;
}

}  // namespace folio::experiments
