#include "infer/ranks/net/ranked_cpu.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <numeric>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "core/file_status.h"
#include "core/version.h"
#include "infer/ranks/net/ranked_stage.h"

namespace folio::infer {
namespace {

// While models are loaded, the timeout is longer by this factor, since ranks may have disks of different speed.
constexpr int kLoadTimeouts = 10;

size_t shards_of(const RankConfig& world, size_t n_stages) {
  if (world.n_ranks % n_stages != 0) {
    throw core::UsageError(fmt::format(
        "--pipeline-parallel {} does not divide the {} ranks of WORLD_SIZE; use a divisor", n_stages, world.n_ranks));
  }
  return world.n_ranks / n_stages;
}

// Returns the options of this rank's CPU: by default, the ranks of a host share its cores.
CpuOptions own_options(const RankConfig& world, CpuOptions options) {
  if (options.n_threads == 0) options.n_threads = std::max<size_t>(1, core::default_threads() / world.n_local);
  return options;
}

// Returns a hash of everything that must be equal on all ranks: build, options, configuration and tensors. Only some
// bytes of each tensor are hashed, to avoid reading all weights from disk.
uint64_t fingerprint_of(const core::StoredModel& model, const Shard& shard, CacheType cache_type, size_t n_stages,
                        bool fast) {
  constexpr size_t kSome = 64;
  std::string text;
  const auto add = [&](const auto&... values) { ((text += fmt::format("{};", values)), ...); };
  const auto add_bytes = [&](std::span<const std::byte> bytes) {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  add(core::version(), n_stages, fast, static_cast<int>(cache_type), shard.layers.first, shard.layers.last);
  for (const core::TensorView& tensor : model.tensors) {
    add(tensor.name, static_cast<int>(tensor.type), tensor.bytes.size());
    const size_t n = std::min(kSome, tensor.bytes.size());
    add_bytes(tensor.bytes.first(n));
    add_bytes(tensor.bytes.subspan((tensor.bytes.size() - n) / 2, n));
  }
  core::ModelConfig::visit_fields(model.config, [&](std::string_view name, const auto& value, auto&&...) {
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_arithmetic_v<T>) add(name, value);
  });
  return std::hash<std::string>{}(text);
}

// The message that a rank sends after it has loaded its part of a model.
struct Loaded {
  uint64_t fingerprint;
  RankReport report;
};

}  // namespace

RankedCpu::RankedCpu(const RankConfig& world, size_t n_stages, const CpuOptions& options)
    : world_(world),
      n_stages_(n_stages),
      n_shards_(shards_of(world, n_stages)),
      cpu_(own_options(world, options)),
      peers_(Peers::connect(world)),
      logits_(*peers_, world.n_ranks - n_shards_) {
  std::vector<size_t> all(world_.n_ranks);
  std::iota(all.begin(), all.end(), size_t{0});
  all_ = make_transport(*peers_, Channel::Rounds, all);
  if (n_stages_ > 1 && world_.rank + n_shards_ < world_.n_ranks) next_.push_back(world_.rank + n_shards_);
  for (size_t rank = 1; n_stages_ > 1 && leads() && rank < n_shards_; ++rank) next_.push_back(rank);
  if (n_shards_ == 1) return;
  const size_t first = world_.rank / n_shards_ * n_shards_;
  std::vector<size_t> stage(n_shards_);
  std::iota(stage.begin(), stage.end(), first);
  exchange_ = std::make_unique<Exchange>(make_transport(*peers_, Channel::Groups, stage), world_.rank % n_shards_,
                                         n_shards_, world_.timeout, true);
}

// On rank 0, orders the other ranks to end. After an error, rank 0 sends no order: the other ranks notice the closed
// connections.
RankedCpu::~RankedCpu() {
  if (!leads() || std::uncaught_exceptions() > 0) return;
  try {
    logits_.receive_all_but(0);  // the last stage waits until its logits are received
    tell({.kind = OrderKind::End});
    shutdown();
  } catch (const std::exception&) {
    // Ignored: a rank is lost, which the other ranks notice, too.
  }
}

std::string RankedCpu::describe() const {
  return fmt::format("{} ranks{}, {} threads each, {}", world_.n_ranks,
                     n_stages_ == 1 ? "" : fmt::format(" in {} stages", n_stages_), cpu_.n_threads(),
                     core::isa_name(cpu_.kernels().isa));
}

std::optional<std::string> RankedCpu::loss() const { return peers_->loss(); }

// Sends an order to all ranks. Without a pipeline, all ranks take part in an all-gather. In a pipeline, each rank
// forwards the order, so that rank 0 doesn't wait until the last stage has finished the previous step.
void RankedCpu::tell(const Order& order) {
  const std::vector<std::byte> bytes = to_bytes(order);
  if (n_stages_ > 1) return forward_order(bytes);
  all_->all_gather(
      bytes, bytes.size(), [](size_t, std::span<const std::byte>) {}, world_.timeout);
}

void RankedCpu::forward_order(std::span<const std::byte> order) {
  for (const size_t rank : next_) peers_->send(rank, Channel::Orders, order);
}

void RankedCpu::shutdown() {
  for (const size_t rank : next_) peers_->wait_until_taken(rank, Channel::Orders);
  peers_->shutdown({});
}

void RankedCpu::run(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    const std::string what = core::describe(error);
    peers_->shutdown(what);
    peers_->mark_failed(what);
    throw;
  }
}

void RankedCpu::follow() {
  run([this] {
    for (Order order;;) {
      if (n_stages_ > 1) {
        const auto bytes = peers_->receive(before(), Channel::Orders, kForever);
        order = to_order(bytes);
        forward_order(bytes);
      } else {
        all_->all_gather(
            {}, 0, [&](size_t, std::span<const std::byte> bytes) { order = to_order(bytes); }, kForever);
      }
      if (order.kind == OrderKind::End) return shutdown();
      stages_.at(order.stage)->do_order(order);
    }
  });
}

std::unique_ptr<Stage> RankedCpu::load(const core::StoredModel& model, const Shard& shard, CacheType cache_type) {
  std::unique_ptr<Stage> loaded;
  run([&] { loaded = load_part(model, shard, cache_type); });
  return loaded;
}

std::unique_ptr<Stage> RankedCpu::load_part(const core::StoredModel& model, const Shard& shard, CacheType cache_type) {
  require_whole(shard, "a CPU of several ranks");
  const auto n_layers = static_cast<size_t>(shard.layers.last - shard.layers.first);
  core::require(n_stages_ <= n_layers, "--pipeline-parallel {} exceeds the {} layers of {}; use fewer stages",
                n_stages_, n_layers, model.path);
  require_tiles(model, n_shards_, "ranks of a stage", "ranks");
  const size_t stage = world_.rank / n_shards_;
  const Share own = share_of(n_layers, stage, n_stages_);
  const LayerRange layers{shard.layers.first + static_cast<int64_t>(own.first),
                          shard.layers.first + static_cast<int64_t>(own.last)};
  auto inner = cpu_.load(
      model, {.layers = layers, .rank = world_.rank % n_shards_, .n_ranks = n_shards_, .exchange = exchange_.get()},
      cache_type);

  const Loaded loaded{.fingerprint = fingerprint_of(model, shard, cache_type, n_stages_, cpu_.fast()),
                      .report = {.load = inner->info().load_report, .fit = inner->cache_fit()}};
  std::vector<Loaded> all(world_.n_ranks);
  all[world_.rank] = loaded;
  all_->all_gather(
      std::as_bytes(std::span(&loaded, 1)), sizeof(loaded),
      [&](size_t rank, std::span<const std::byte> bytes) {
        if (bytes.size() == sizeof(Loaded)) std::memcpy(&all[rank], bytes.data(), sizeof(Loaded));
      },
      kLoadTimeouts * world_.timeout);
  std::vector<RankReport> reports;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    core::require(all[rank].fingerprint == all[0].fingerprint,
                  "rank {} of {} has a different model, build or machine flags than rank 0; start all ranks alike",
                  rank, world_.n_ranks);
    reports.push_back(all[rank].report);
  }
  auto ranked = std::make_unique<RankedStage>(*this, std::move(inner), stage + 1 == n_stages_,
                                              static_cast<uint32_t>(stages_.size()), sum_of(reports, world_.n_local));
  stages_.push_back(ranked.get());
  return ranked;
}

}  // namespace folio::infer
