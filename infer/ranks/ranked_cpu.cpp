#include "infer/ranks/ranked_cpu.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <numeric>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "core/version.h"
#include "infer/cpu/cpu_stage.h"
#include "infer/forward/forward.h"
#include "infer/forward/pass_through.h"
#include "infer/ranks/orders.h"

namespace folio::infer {
namespace {

constexpr size_t kPieceRows = 32;  ///< so many rows take longer to multiply than their weights to read

// While all load, one may take longer than others: from a slower disk, for example.
constexpr int kLoadTimeouts = 10;

size_t shards_of(const World& world, size_t n_stages) {
  if (world.n_ranks % n_stages != 0) {
    throw core::UsageError(
        fmt::format("--pipeline-parallel {} does not divide the {} ranks of WORLD_SIZE; take a number that does",
                    n_stages, world.n_ranks));
  }
  return world.n_ranks / n_stages;
}

size_t threads_of(const World& world, const CpuOptions& options) {
  if (options.n_threads != 0) return options.n_threads;
  return std::max<size_t>(1, core::default_threads() / world.n_local);
}

// FNV-1a of what has to be the same on all ranks.
class Fingerprint {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) value_ = (value_ ^ static_cast<uint64_t>(b)) * 0x100000001B3U;
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  template <typename... Values>
  void add_all(const Values&... values) {
    (add(fmt::format("{};", values)), ...);
  }
  [[nodiscard]] uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xCBF29CE484222325U;
};

// Of a tensor its kind and some of its bytes: all of them would be read from disk.
uint64_t fingerprint_of(const core::StoredModel& model, const Shard& shard, CacheType cache_type, size_t n_stages,
                        bool fast) {
  constexpr size_t kSome = 64;
  Fingerprint sum;
  sum.add_all(core::version(), n_stages, fast, static_cast<int>(cache_type), shard.layers.first, shard.layers.last);
  for (const core::TensorView& tensor : model.tensors) {
    sum.add_all(tensor.name, static_cast<int>(tensor.type), tensor.bytes.size());
    const size_t n = std::min(kSome, tensor.bytes.size());
    sum.add(tensor.bytes.first(n));
    sum.add(tensor.bytes.subspan((tensor.bytes.size() - n) / 2, n));
  }
  core::ModelConfig::visit_fields(model.config, [&](std::string_view name, const auto& value, auto&&...) {
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_arithmetic_v<T>) sum.add_all(name, value);
  });
  return sum.value();
}

// What a rank says when it has loaded its part.
struct Loaded {
  uint64_t fingerprint;
  uint64_t weight_bytes;
  uint64_t repacked_bytes;
  double repack_seconds;
  uint64_t block_bytes;
  int64_t n_blocks;
};

}  // namespace

// ---- A rank's part of a model ----

// Takes the residual from the stage before, and hands it on; in the last stage of several the first rank keeps the
// logits of a step's pieces. Says which slots are inputs of matrices in blocks alone.
class RankPart final : public PassThroughStage {
 public:
  RankPart(std::unique_ptr<Stage> cpu_stage, Peers& peers, RankedExchange* exchange, size_t n_experts, size_t n_stages,
           bool last)
      : PassThroughStage(std::move(cpu_stage)),
        peers_(peers),
        exchange_(exchange),
        n_experts_(n_experts),
        n_shards_(peers.world().n_ranks / n_stages),
        last_(last),
        keeps_logits_(n_stages > 1 && last && peers.world().rank % n_shards_ == 0) {}

  void begin(const Step& step) override {
    PassThroughStage::begin(step);
    n_rows_ = step.rows.size();
    n_logit_rows_ = step.n_logit_rows;
    const auto has_adapter = [](const StepRow& row) { return row.adapter != kNoAdapter; };
    needs_floats_ = step.observed || std::ranges::any_of(step.rows, has_adapter);
    if (layers().first == 0) return;
    const size_t before = peers_.world().rank - n_shards_;
    const auto bytes = peers_.receive(before, Channel::Residual, peers_.world().timeout);
    residual_.resize(n_rows_ * width(Slot::Residual));
    core::require(bytes.size() == residual_.size() * sizeof(float), "a residual is of another step");
    std::memcpy(residual_.data(), bytes.data(), bytes.size());
    peers_.expect(before, Channel::Residual);
    write(Slot::Residual, residual_);
  }

  void attend(int64_t layer) override {
    layer_ = layer;
    is_input_of(Slot::Heads, core::Role::Wo, 1);
    PassThroughStage::attend(layer);
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

// What the runner sees of all ranks. On rank 0 a step is told to the others; without a pipeline rank 0 then does the
// forward's operations as they come, and otherwise the whole step at once. On another rank nothing comes from its own
// runner, which has no requests.
class RankedStage final : public PassThroughStage {
 public:
  RankedStage(RankedCpu& machine, std::unique_ptr<RankPart> part, const LoadReport& report, CacheFit fit)
      : PassThroughStage(std::move(part)),
        part_(static_cast<RankPart&>(inner())),
        machine_(machine),
        number_(static_cast<uint32_t>(machine.stages_.size())),
        report_(report),
        fit_(fit) {}

  [[nodiscard]] CacheFit cache_fit() const override { return fit_; }
  [[nodiscard]] const LoadReport& load_report() const override { return report_; }

  void load_adapter(int32_t number, std::shared_ptr<const core::Adapter> adapter) override {
    if (!machine_.leads()) return;  // rank 0 says when
    tell(to_bytes(OrderKind::LoadAdapter, number_, number, *adapter));
    or_give_up([&] { inner().load_adapter(number, adapter); });
  }
  void unload_adapter(int32_t number) override {
    if (!machine_.leads()) return;
    tell(to_bytes(OrderKind::UnloadAdapter, number_, number, {}));
    inner().unload_adapter(number);
  }

  void begin(const Step& step) override {
    core::require(!in_pipeline() || !step.observed, "the operations of a pipeline of ranks can't be observed");
    if (n_pending_ > 0) static_cast<void>(logits_of_last_stage());  // that nobody wanted
    tell(to_bytes(OrderKind::Step, number_, step));
    step_ = step;
    if (!in_pipeline()) or_give_up([&] { inner().begin(step); });
  }
  bool replay() override {
    if (!in_pipeline()) return false;
    run(step_);
    n_pending_ = step_.n_logit_rows;
    return true;
  }
  std::span<float> wait(Ticket ticket) override {
    return in_pipeline() ? logits_of_last_stage() : inner().wait(ticket);
  }

  void run(const Step& step) {
    or_give_up([&] {
      for (const Step& piece : pieces_of(step, machine_.n_stages())) infer::forward(alone(), piece, {});
      if (in_pipeline()) part_.send_logits();
    });
  }
  void do_order(Order& order) {
    if (order.kind == OrderKind::Step) run(order.step());
    if (order.kind == OrderKind::UnloadAdapter) inner().unload_adapter(order.number);
    if (order.kind == OrderKind::LoadAdapter) {
      inner().load_adapter(order.number, std::make_shared<const core::Adapter>(std::move(order.adapter)));
    }
  }

 private:
  [[nodiscard]] bool in_pipeline() const { return machine_.n_stages() > 1; }
  void tell(const std::vector<std::byte>& order) { machine_.tell(order); }

  // The other ranks wait in the middle of a step, or have what this one has not: there is no way on.
  template <typename Work>
  void or_give_up(Work&& work) {
    try {
      work();
    } catch (const std::exception& error) {
      machine_.peers_.give_up(error.what());
      throw;
    }
  }

  std::span<float> logits_of_last_stage() {
    const World& world = machine_.world();
    const size_t from = world.n_ranks - world.n_ranks / machine_.n_stages();
    const auto bytes = machine_.peers_.receive(from, Channel::Logits, world.timeout);
    logits_.resize(std::exchange(n_pending_, 0) * width(Slot::Logits));
    core::require(bytes.size() == logits_.size() * sizeof(float), "logits are of another step");
    std::memcpy(logits_.data(), bytes.data(), bytes.size());
    return logits_;
  }

  RankPart& part_;
  RankedCpu& machine_;
  uint32_t number_;
  LoadReport report_;
  CacheFit fit_;
  Step step_{};
  size_t n_pending_ = 0;  ///< rows of logits that are on their way
  std::vector<float> logits_;
};

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

// ---- The machine ----

RankedCpu::RankedCpu(const World& world, size_t n_stages, const CpuOptions& options)
    : world_(world),
      n_stages_(n_stages),
      n_shards_(shards_of(world, n_stages)),
      cpu_({.n_threads = threads_of(world, options),
            .kernels = options.kernels,
            .fast = options.fast,
            .copies_weights = options.copies_weights}),
      peers_(world) {
  std::vector<size_t> all(world_.n_ranks);
  std::iota(all.begin(), all.end(), size_t{0});
  orders_ = make_rounds(peers_, Channel::Rounds, all);
  if (n_shards_ == 1) return;
  const size_t first = world_.rank / n_shards_ * n_shards_;
  std::vector<size_t> stage(n_shards_);
  std::iota(stage.begin(), stage.end(), first);
  exchange_ = std::make_unique<RankedExchange>(make_rounds(peers_, Channel::Groups, stage), n_shards_, world_.timeout);
}

// Where rank 0 ends with an error, the others see that it is gone.
RankedCpu::~RankedCpu() {
  if (!leads() || std::uncaught_exceptions() > 0) return;
  try {
    const Order end;
    tell(to_bytes(end.kind, 0, end.step()));
    peers_.take_leave();
  } catch (const std::exception&) {
    // a rank is gone, and the others know
  }
}

std::string RankedCpu::describe() const {
  return fmt::format("{} ranks{}, {} threads each, {}", world_.n_ranks,
                     n_stages_ == 1 ? "" : fmt::format(" in {} stages", n_stages_), cpu_.n_threads(),
                     core::isa_name(cpu_.kernels().isa));
}

std::optional<std::string> RankedCpu::loss() const { return peers_.loss(); }

void RankedCpu::tell(std::span<const std::byte> order) {
  orders_->meet(
      order, {}, [](size_t, std::span<const std::byte>) {}, world_.timeout);
}

void RankedCpu::follow() {
  for (Order order;;) {
    orders_->meet(
        {}, {}, [&](size_t, std::span<const std::byte> bytes) { order = to_order(bytes); }, kForever);
    if (order.kind == OrderKind::End) break;
    stages_.at(order.stage)->do_order(order);
  }
  peers_.take_leave();
}

std::unique_ptr<Stage> RankedCpu::load(const core::StoredModel& model, const Shard& shard, CacheType cache_type) {
  require_whole(shard, "a machine of ranks");
  const auto n_layers = static_cast<size_t>(shard.layers.last - shard.layers.first);
  const auto dim = static_cast<size_t>(model.config.dim);
  core::require(n_stages_ <= n_layers, "--pipeline-parallel {} are more stages than the {} layers of {}; take fewer",
                n_stages_, n_layers, model.path);
  core::require(n_shards_ <= shard_tiles(dim),
                "{} ranks of a stage are more than the {} tiles of {} rows that {}'s width of {} has; take fewer ranks",
                n_shards_, shard_tiles(dim), kShardRows, model.path, dim);
  const size_t stage = world_.rank / n_shards_;
  const Share own = share_of(n_layers, stage, n_stages_);
  const LayerRange layers{shard.layers.first + static_cast<int64_t>(own.first),
                          shard.layers.first + static_cast<int64_t>(own.last)};
  auto inner = cpu_.load(
      model, {.layers = layers, .rank = world_.rank % n_shards_, .n_ranks = n_shards_, .exchange = exchange_.get()},
      cache_type);

  const CacheFit fit = inner->cache_fit();
  const LoadReport& report = inner->load_report();
  const Loaded loaded{.fingerprint = fingerprint_of(model, shard, cache_type, n_stages_, cpu_.fast()),
                      .weight_bytes = report.weight_bytes,
                      .repacked_bytes = report.repacked_bytes,
                      .repack_seconds = report.repack_seconds,
                      .block_bytes = fit.block_bytes,
                      .n_blocks = fit.n_blocks};
  std::vector<Loaded> all(world_.n_ranks);
  all[world_.rank] = loaded;
  orders_->meet(
      std::as_bytes(std::span(&loaded, 1)), {},
      [&](size_t rank, std::span<const std::byte> bytes) {
        if (bytes.size() == sizeof(Loaded)) std::memcpy(&all[rank], bytes.data(), sizeof(Loaded));
      },
      kLoadTimeouts * world_.timeout);
  LoadReport sum;
  uint64_t block_bytes = 0;
  uint64_t memory = UINT64_MAX;  // for the blocks of a host's ranks, where that is least
  for (size_t rank = 0; rank < all.size(); ++rank) {
    core::require(all[rank].fingerprint == all[0].fingerprint,
                  "rank {} of {} has another model than rank 0, another build or other flags of the machine; start all "
                  "ranks alike",
                  rank, world_.n_ranks);
    sum.weight_bytes += all[rank].weight_bytes;
    sum.repacked_bytes += all[rank].repacked_bytes;
    sum.repack_seconds = std::max(sum.repack_seconds, all[rank].repack_seconds);
    block_bytes += all[rank].block_bytes;
    memory = std::min(memory, static_cast<uint64_t>(all[rank].n_blocks) * std::max<uint64_t>(1, all[rank].block_bytes));
  }
  const auto n_blocks = static_cast<int64_t>(memory / std::max<uint64_t>(1, block_bytes));
  auto part =
      std::make_unique<RankPart>(std::move(inner), peers_, exchange_.get(), static_cast<size_t>(model.config.n_experts),
                                 n_stages_, stage + 1 == n_stages_);
  auto ranked = std::make_unique<RankedStage>(*this, std::move(part), sum,
                                              CacheFit{.block_bytes = block_bytes, .n_blocks = n_blocks});
  stages_.push_back(ranked.get());
  return ranked;
}

}  // namespace folio::infer
