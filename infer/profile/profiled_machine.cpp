#include "infer/profile/profiled_machine.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "core/manifest.h"
#include "infer/forward/pass_through.h"

namespace folio::infer {
namespace {

using Clock = std::chrono::steady_clock;

enum Kind : size_t {
  Begin,
  Embedding,
  Norms,
  Qkv,
  Store,
  LatentHeads,
  Attention,
  AttentionOutput,
  RouterScores,
  ExpertGateUp,
  ExpertDown,
  GateUp,
  Activation,
  SharedGateRows,
  Down,
  LogitsProduct,
  Other
};
static_assert(Other + 1 == kWorkKinds.size());

struct KindOf {
  Kind operator()(const Embed& /*o*/) const { return Embedding; }
  Kind operator()(const Norm& /*o*/) const { return Norms; }
  Kind operator()(const NormHeads& /*o*/) const { return Norms; }
  Kind operator()(const Project& o) const {
    const Slot out = o.projections().front().out;
    return out == Slot::Query || out == Slot::QueryLatent ? Qkv : out == Slot::Logits ? LogitsProduct : GateUp;
  }
  Kind operator()(const ProjectToResidual& o) const { return o.in == Slot::Heads ? AttentionOutput : Down; }
  Kind operator()(const ProjectHeads& /*o*/) const { return LatentHeads; }
  Kind operator()(const RotateAndStore& /*o*/) const { return Store; }
  Kind operator()(const Attend& /*o*/) const { return Attention; }
  Kind operator()(const Activate& /*o*/) const { return Activation; }
  Kind operator()(const Route& /*o*/) const { return RouterScores; }
  Kind operator()(const ProjectExperts& /*o*/) const { return ExpertGateUp; }
  Kind operator()(const CombineExperts& /*o*/) const { return ExpertDown; }
  Kind operator()(const GateRows& /*o*/) const { return SharedGateRows; }
  template <typename Rest>  // all other operations: Gather, FinishLogits and DrawTokens
  Kind operator()(const Rest& /*o*/) const {
    return Other;
  }
};

class ProfiledStage final : public PassThroughStage {
 public:
  ProfiledStage(std::unique_ptr<Stage> inner, const core::StoredModel& model, ProfiledMachine& machine)
      : PassThroughStage(std::move(inner)),
        machine_(machine),
        config_(model.config),
        cached_bytes_(this->inner().cache_fit().block_bytes / kBlockPositions /
                      static_cast<uint64_t>(layers().last - layers().first)),
        multiply_adds_(config_.latent()
                           ? static_cast<uint64_t>(config_.n_heads * config_.kv_lora_rank) + width(Slot::Absorbed)
                           : 2 * width(Slot::Query)) {
    const auto manifest = core::tensor_manifest(model.config);
    for (size_t i = 0; i < manifest.size(); ++i) {
      if (!needed_by(layers(), manifest[i], model.config)) continue;
      const bool tied = manifest[i].role == core::Role::TokenEmbedding && !weights().has(core::Role::TokenEmbedding);
      const WeightId id = weights()(tied ? core::Role::Output : manifest[i].role, manifest[i].layer);
      sizes_.resize(std::max(sizes_.size(), static_cast<size_t>(id.index) + 1));
      sizes_[static_cast<size_t>(id.index)] = {.elements = static_cast<uint64_t>(manifest[i].elements()),
                                               .bytes = model.tensors[i].bytes.size()};
    }
  }

  // While profiling, disables replay, so that every operation is issued.
  bool begin(const Step& step) override {
    if (!machine_.enabled) return PassThroughStage::begin(step);
    step_begin_ = last_ = Clock::now();
    layer_ = -1;
    rows_.assign(step.rows.begin(), step.rows.end());
    ++machine_.profile.steps;
    machine_.profile.rows += rows_.size();
    Step own = step;
    own.may_replay = false;
    const bool replayed = PassThroughStage::begin(own);
    ended(Begin);
    return replayed;
  }

  void issue(const Operation& operation) override {
    if (!machine_.enabled) return PassThroughStage::issue(operation);
    const Kind kind = std::visit(KindOf{}, operation);
    work_ = &machine_.profile.kinds[kind];
    std::visit([this](const auto& o) { count(o); }, operation);
    PassThroughStage::issue(operation);
    ended(kind);
    if (!std::holds_alternative<Route>(operation)) return;
    count_experts();
    last_ = Clock::now();
  }

  void end() override {
    PassThroughStage::end();
    if (!machine_.enabled) return;
    ended(Other);
    machine_.profile.step_seconds += std::chrono::duration<double>(last_ - step_begin_).count();
  }

 private:
  struct Size {
    uint64_t elements = 0;
    uint64_t bytes = 0;
  };

  // Reads the clock once per operation: each begins when the previous one ended.
  void ended(Kind kind) {
    const auto now = Clock::now();
    Work& work = machine_.profile.kinds[kind];
    ++work.operations;
    work.seconds += std::chrono::duration<double>(now - last_).count();
    if (machine_.trace != nullptr) machine_.trace->push_back({kind, layer_, last_, now});
    last_ = now;
  }

  template <typename Rest>
  void count(const Rest& /*o*/) {}
  void count(const Embed& o) {
    const Size& size = size_of(o.table);
    work_->embedding_bytes += rows_.size() * (size.bytes / (size.elements / width(Slot::Residual)));
  }
  void count(const Norm& o) { count_vectors({o.weight}); }
  void count(const NormHeads& o) { count_vectors({o.weight}); }
  void count(const Project& o) {
    for (const Projection& p : o.projections()) {
      count_product(p.weight);
      count_vectors({p.bias});
    }
  }
  void count(const ProjectToResidual& o) {
    count_product(o.weight);
    count_vectors({o.bias, o.post_norm});
  }
  void count(const ProjectHeads& o) { count_product(o.weight); }
  void count(const Route& o) {
    count_product(o.weight);
    count_vectors({o.bias, o.selection_bias});
  }
  void count(const ProjectExperts& o) {
    for (const ExpertMatrix& m : {o.gate, o.up}) count_stack(m);
  }
  void count(const CombineExperts& o) { count_stack(o.down); }
  void count(const GateRows& o) { count_product(o.weight); }
  void count(const RotateAndStore& o) {
    layer_ = o.layer;
    work_->cache_bytes_written += rows_.size() * cached_bytes_;
  }
  void count(const Attend& o) {
    count_vectors({o.sinks});
    for (const StepRow& row : rows_) {
      const auto positions = static_cast<uint64_t>(std::min(row.position + 1, positions_seen(config_, o.layer)));
      work_->cache_bytes_read += positions * cached_bytes_;
      work_->attention_multiply_adds += positions * multiply_adds_;
    }
  }
  void count(const Gather& /*o*/) {
    std::erase_if(rows_, [](const StepRow& row) { return !row.needs_logits; });
  }

  [[nodiscard]] const Size& size_of(WeightId id) const { return sizes_[static_cast<size_t>(id.index)]; }
  void count_vectors(std::initializer_list<WeightId> vectors) {
    for (const WeightId id : vectors) work_->weight_bytes += id.exists() ? size_of(id).bytes : 0;
  }
  // Counts a matrix product. The matrix is read once, and each of its elements is multiplied once per row.
  void count_product(WeightId weight) {
    work_->weight_bytes += size_of(weight).bytes;
    work_->matrix_multiply_adds += rows_.size() * size_of(weight).elements;
  }

  // Counts the experts that at least one row uses, and the (row, expert) pairs with a nonzero weight.
  void count_experts() {
    const size_t n_experts = width(Slot::Routes);
    std::vector<float> routes(rows_.size() * n_experts);
    read(Slot::Routes, routes);
    n_taken_ = 0;
    std::vector<bool> taken(n_experts, false);
    for (size_t i = 0; i < routes.size(); ++i) {
      if (routes[i] == 0.0F) continue;
      taken[i % n_experts] = true;
      ++n_taken_;
    }
    n_experts_taken_ = static_cast<uint64_t>(std::count(taken.begin(), taken.end(), true));
  }
  // Counts a product with stacked expert matrices. Only those of experts that a row uses are read, with their biases.
  void count_stack(const ExpertMatrix& stack) {
    const auto n_experts = static_cast<uint64_t>(config_.n_experts);
    const uint64_t bias = stack.bias.exists() ? size_of(stack.bias).bytes : 0;
    work_->weight_bytes += n_experts_taken_ * (size_of(stack.weight).bytes + bias) / n_experts;
    work_->matrix_multiply_adds += n_taken_ * size_of(stack.weight).elements / n_experts;
  }

  ProfiledMachine& machine_;
  const core::ModelConfig& config_;
  uint64_t cached_bytes_;    ///< KV cache bytes per position and layer
  uint64_t multiply_adds_;   ///< attention multiply-adds per row and cached position: products with keys and values
  std::vector<Size> sizes_;  ///< indexed by WeightId
  std::vector<StepRow> rows_;
  uint64_t n_taken_ = 0;  ///< number of (row, expert) pairs that the current layer computes
  uint64_t n_experts_taken_ = 0;
  Work* work_ = nullptr;  ///< counters of the current operation
  int64_t layer_ = -1;    ///< layer of the step's last RotateAndStore; -1: none yet
  Clock::time_point step_begin_;
  Clock::time_point last_;  ///< end of the previous operation
};

}  // namespace

Work& Work::operator+=(const Work& other) {
  operations += other.operations;
  seconds += other.seconds;
  weight_bytes += other.weight_bytes;
  embedding_bytes += other.embedding_bytes;
  cache_bytes_read += other.cache_bytes_read;
  cache_bytes_written += other.cache_bytes_written;
  matrix_multiply_adds += other.matrix_multiply_adds;
  attention_multiply_adds += other.attention_multiply_adds;
  return *this;
}

Work Profile::total() const {
  Work sum;
  for (const Work& work : kinds) sum += work;
  return sum;
}

Profile& Profile::operator+=(const Profile& other) {
  steps += other.steps;
  rows += other.rows;
  step_seconds += other.step_seconds;
  for (size_t k = 0; k < kinds.size(); ++k) kinds[k] += other.kinds[k];
  return *this;
}

std::unique_ptr<Stage> ProfiledMachine::load(const core::StoredModel& model, const Shard& shard, CacheType cache_type) {
  return std::make_unique<ProfiledStage>(inner_.load(model, shard, cache_type), model, *this);
}

}  // namespace folio::infer
