#include "infer/ranks/net/ranked_stage.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "infer/forward/forward.h"

namespace folio::infer {
namespace {

constexpr size_t kPieceRows = 32;  ///< minimum rows of a micro-batch, so that reading the weights is not the bottleneck

}  // namespace

RankedStage::RankedStage(RankedCpu& machine, std::unique_ptr<Stage> cpu_stage, bool is_last, uint32_t number,
                         const RankReport& report)
    : PassThroughStage(std::move(cpu_stage)),
      machine_(machine),
      is_last_(is_last),
      number_(number),
      info_(inner().info()),
      fit_(report.fit) {
  info_.load_report = report.load;
  info_.steps_in_flight = machine.n_stages();
  info_.writable = !in_pipeline();
  info_.keeps_hidden = false;
}

// The runners of all ranks call this, but only rank 0's call has an effect: it loads the adapter on all ranks.
void RankedStage::load_adapter(int32_t number, const core::Adapter& adapter) {
  if (!machine_.leads()) return;
  machine_.tell({.kind = OrderKind::LoadAdapter, .stage = number_, .number = number, .adapter = adapter});
  machine_.run([&] { inner().load_adapter(number, adapter); });
}

void RankedStage::unload_adapter(int32_t number) {
  if (!machine_.leads()) return;
  machine_.tell({.kind = OrderKind::UnloadAdapter, .stage = number_, .number = number});
  inner().unload_adapter(number);
}

bool RankedStage::begin(const Step& step) {
  core::require(!in_pipeline() || !step.observed, "operations cannot be observed in a pipeline of ranks");
  core::require(!step.keeps_hidden, "several ranks keep no hidden states of a step; use one process");
  if (in_pipeline()) machine_.logits_.receive_all_but(max_outstanding_logits(step));
  machine_.tell(order_of(number_, step));
  observed_ = step.observed;
  if (!in_pipeline()) {
    machine_.run([&] { static_cast<void>(inner().begin(step)); });
    return false;
  }
  if (step.n_logit_rows > 0) logits_ = machine_.logits_.expect(number_, step.n_logit_rows * width(Slot::Logits));
  run(step);
  return true;
}

std::span<float> RankedStage::wait(Ticket ticket) {
  return in_pipeline() ? machine_.logits_.wait(ticket) : PassThroughStage::wait(ticket);
}

void RankedStage::issue(const Operation& operation) {
  machine_.run([&] {
    if (observed_) machine_.tell({.kind = OrderKind::Operation, .stage = number_, .operation = operation});
    PassThroughStage::issue(operation);
  });
}

void RankedStage::write(Slot slot, std::span<const float> values) {
  machine_.tell({.kind = OrderKind::Write, .stage = number_, .values = {values.begin(), values.end()}, .slot = slot});
  PassThroughStage::write(slot, values);
}

// Runs this rank's layers for a step. Receives the residual from the previous stage and sends it to the next one. In
// the last of several stages, the first rank sends the logits of all micro-batches to rank 0.
void RankedStage::run(const Step& step) {
  Peers& peers = *machine_.peers_;
  const size_t rank = machine_.world().rank;
  std::vector<float> logits;
  machine_.run([&] {
    for (Step& piece : pieces_of(step, machine_.n_stages())) {
      residual_.resize(piece.rows.size() * width(Slot::Residual));
      if (layers().first > 0) {
        peers.receive_floats(machine_.before(), Channel::Residual, residual_);
        piece.residual = residual_;
      }
      infer::forward(alone(), piece, {});
      if (!is_last_) {
        inner().read(Slot::Residual, residual_);
        peers.send(rank + machine_.n_shards_, Channel::Residual, std::as_bytes(std::span(residual_)));
      } else if (in_pipeline() && rank % machine_.n_shards_ == 0 && piece.n_logit_rows > 0) {
        const auto some = inner().wait(inner().fetch_logits());
        logits.insert(logits.end(), some.begin(), some.end());
      }
    }
    if (!logits.empty()) peers.send(0, Channel::Logits, std::as_bytes(std::span(logits)));
  });
}

void RankedStage::do_order(const Order& order) {
  if (order.kind == OrderKind::Step)
    order.observed ? static_cast<void>(inner().begin(order.step())) : run(order.step());
  if (order.kind == OrderKind::Operation) inner().issue(order.operation);
  if (order.kind == OrderKind::Write) inner().write(order.slot, order.values);
  if (order.kind == OrderKind::UnloadAdapter) inner().unload_adapter(order.number);
  if (order.kind == OrderKind::LoadAdapter) inner().load_adapter(order.number, order.adapter);
}

// Returns how many earlier steps may have logits that rank 0 has not received yet when rank 0 sends `step`. The last
// stage blocks while two of its messages are unread. A step of one micro-batch can then still enter the pipeline, but
// with more micro-batches, rank 0 and the last stage could wait for each other (deadlock).
size_t RankedStage::max_outstanding_logits(const Step& step) const {
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
