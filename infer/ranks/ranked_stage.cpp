#include "infer/ranks/ranked_stage.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "core/error.h"
#include "infer/cpu/cpu_stage.h"
#include "infer/forward/forward.h"

namespace folio::infer {
namespace {

constexpr size_t kPieceRows = 32;  ///< so many rows take longer to multiply than their weights to read

}  // namespace

// Takes the residual from the stage before, and hands it on; in the last stage of several the first rank keeps the
// logits of a step's pieces. Says which slots are inputs of matrices in blocks alone.
class RankPart final : public PassThroughStage {
 public:
  RankPart(std::unique_ptr<Stage> cpu_stage, const core::ModelConfig& config, Peers& peers, RankedExchange* exchange,
           size_t n_stages)
      : PassThroughStage(std::move(cpu_stage)),
        peers_(peers),
        exchange_(exchange),
        n_experts_(static_cast<size_t>(config.n_experts)),
        n_shards_(peers.world().n_ranks / n_stages),
        last_(layers().last == config.n_layers),
        keeps_logits_(n_stages > 1 && last_ && peers.world().rank % n_shards_ == 0) {
    if (layers().first > 0) peers_.expect(before(), Channel::Residual);
  }

  void begin(const Step& step) override {
    PassThroughStage::begin(step);
    n_rows_ = step.rows.size();
    n_logit_rows_ = step.n_logit_rows;
    const auto has_adapter = [](const StepRow& row) { return row.adapter != kNoAdapter; };
    needs_floats_ = step.observed || std::ranges::any_of(step.rows, has_adapter);
    if (layers().first == 0) return;
    const auto bytes = peers_.receive(before(), Channel::Residual, peers_.world().timeout);
    residual_.resize(n_rows_ * width(Slot::Residual));
    core::require(bytes.size() == residual_.size() * sizeof(float), "a residual is of another step");
    std::memcpy(residual_.data(), bytes.data(), bytes.size());
    peers_.expect(before(), Channel::Residual);
    write(Slot::Residual, residual_);
  }

  void attend(int64_t layer, WeightId sinks) override {
    layer_ = layer;
    is_input_of(Slot::Heads, core::Role::Wo, 1);
    PassThroughStage::attend(layer, sinks);
  }
  void activate(Slot gate, Slot up) override {
    if (gate == Slot::Gate) is_input_of(gate, core::Role::W2, 1);
    if (gate == Slot::ExpertGate) is_input_of(gate, core::Role::ExpertW2, n_experts_);
    PassThroughStage::activate(gate, up);
  }

  void end() override {
    PassThroughStage::end();
    if (!last_) {
      residual_.resize(n_rows_ * width(Slot::Residual));
      read(Slot::Residual, residual_);
      peers_.send(peers_.world().rank + n_shards_, Channel::Residual, std::as_bytes(std::span(residual_)));
    } else if (keeps_logits_ && n_logit_rows_ > 0) {
      const auto logits = wait(fetch_logits());
      logits_.insert(logits_.end(), logits.begin(), logits.end());
    }
  }

  /// All pieces of a step are done.
  void send_logits() {
    if (!logits_.empty()) peers_.send(0, Channel::Logits, std::as_bytes(std::span(logits_)));
    logits_.clear();
  }

 private:
  [[nodiscard]] size_t before() const { return peers_.world().rank - n_shards_; }
  void is_input_of(Slot slot, core::Role role, size_t n_matrices) {
    if (exchange_ == nullptr) return;
    const CpuWeights& weights = static_cast<CpuStage&>(inner()).cpu_weights();
    const bool in_groups = weights.stack(this->weights()(role, layer_), n_matrices).front().in_groups();
    exchange_->send_in_eight_bits(slot, in_groups && !needs_floats_);
  }

  Peers& peers_;
  RankedExchange* exchange_;  ///< none where the stage has one rank
  size_t n_experts_;
  int64_t layer_ = 0;
  bool needs_floats_ = false;  ///< somebody looks at them, or an adapter's matrices do
  size_t n_shards_;
  bool last_;
  bool keeps_logits_;
  size_t n_rows_ = 0;
  size_t n_logit_rows_ = 0;
  std::vector<float> residual_;
  std::vector<float> logits_;
};

RankedStage::RankedStage(RankedCpu& machine, std::unique_ptr<Stage> cpu_stage, const core::ModelConfig& config,
                         uint32_t number, const LoadReport& report, CacheFit fit)
    : PassThroughStage(std::make_unique<RankPart>(std::move(cpu_stage), config, machine.peers_, machine.exchange_.get(),
                                                  machine.n_stages())),
      part_(static_cast<RankPart&>(inner())),
      machine_(machine),
      number_(number),
      report_(report),
      fit_(fit) {}

// Each rank's own runner loads the adapters of its flags, too; rank 0 says when.
void RankedStage::load_adapter(int32_t number, std::shared_ptr<const core::Adapter> adapter) {
  if (!machine_.leads()) return;
  machine_.tell(to_bytes(OrderKind::LoadAdapter, number_, number, *adapter));
  or_give_up([&] { inner().load_adapter(number, adapter); });
}

void RankedStage::unload_adapter(int32_t number) {
  if (!machine_.leads()) return;
  machine_.tell(to_bytes(OrderKind::UnloadAdapter, number_, number, {}));
  inner().unload_adapter(number);
}

void RankedStage::begin(const Step& step) {
  core::require(!in_pipeline() || !step.observed, "the operations of a pipeline of ranks can't be observed");
  if (in_pipeline()) machine_.logits_.receive_all_but(most_on_their_way(step));
  machine_.tell(to_bytes(OrderKind::Step, number_, step));
  step_ = step;
  if (!in_pipeline()) or_give_up([&] { inner().begin(step); });
}

bool RankedStage::replay() {
  if (!in_pipeline()) return false;
  if (step_.n_logit_rows > 0) logits_ = machine_.logits_.expect(number_, step_.n_logit_rows * width(Slot::Logits));
  run(step_);
  return true;
}

std::span<float> RankedStage::wait(Ticket ticket) {
  return in_pipeline() ? machine_.logits_.wait(ticket) : inner().wait(ticket);
}

void RankedStage::run(const Step& step) {
  or_give_up([&] {
    for (const Step& piece : pieces_of(step, machine_.n_stages())) infer::forward(alone(), piece, {});
    part_.send_logits();
  });
}

void RankedStage::do_order(Order& order) {
  if (order.kind == OrderKind::Step) run(order.step());
  if (order.kind == OrderKind::UnloadAdapter) inner().unload_adapter(order.number);
  if (order.kind == OrderKind::LoadAdapter) {
    inner().load_adapter(order.number, std::make_shared<const core::Adapter>(std::move(order.adapter)));
  }
}

// The other ranks wait in the middle of a step, or have what this one has not: there is no way on.
template <typename Work>
void RankedStage::or_give_up(Work&& work) {
  try {
    work();
  } catch (const std::exception& error) {
    machine_.peers_.give_up(error.what());
    throw;
  }
}

// Between two ranks there is room for two messages of a kind. The last stage waits until rank 0 takes the logits before
// it sends the next ones. Meanwhile a step of one piece has room in the pipeline; several pieces may have not, and rank
// 0 would wait for the last stage.
size_t RankedStage::most_on_their_way(const Step& step) const {
  return step.n_logit_rows > 0 && pieces_of(step, machine_.n_stages()).size() == 1 ? machine_.n_stages() : 1;
}

std::vector<Step> pieces_of(const Step& step, size_t n_stages) {
  const size_t n_rows = step.rows.size();
  const size_t n = n_stages == 1 ? 1 : std::clamp<size_t>(n_rows / kPieceRows, 1, 4 * n_stages);
  std::vector<Step> pieces(n, step);
  for (size_t i = 0; i < n; ++i) {
    const Share own = share_of(n_rows, i, n);
    pieces[i].rows = step.rows.subspan(own.first, own.last - own.first);
    pieces[i].n_logit_rows = static_cast<size_t>(std::ranges::count_if(pieces[i].rows, &StepRow::needs_logits));
    if (i > 0) pieces[i].copies = {};
  }
  return pieces;
}

}  // namespace folio::infer
