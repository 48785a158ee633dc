#include "infer/ranks/ranked_cpu.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <numeric>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "core/version.h"
#include "infer/ranks/orders.h"
#include "infer/ranks/ranked_stage.h"

namespace folio::infer {
namespace {

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

RankedCpu::RankedCpu(const World& world, size_t n_stages, const CpuOptions& options)
    : world_(world),
      n_stages_(n_stages),
      n_shards_(shards_of(world, n_stages)),
      cpu_({.n_threads = threads_of(world, options),
            .kernels = options.kernels,
            .fast = options.fast,
            .copies_weights = options.copies_weights}),
      peers_(world),
      logits_(peers_, world.n_ranks - n_shards_) {
  std::vector<size_t> all(world_.n_ranks);
  std::iota(all.begin(), all.end(), size_t{0});
  all_ = make_rounds(peers_, Channel::Rounds, all);
  if (n_stages_ > 1 && world_.rank + n_shards_ < world_.n_ranks) next_.push_back(world_.rank + n_shards_);
  for (size_t rank = 1; n_stages_ > 1 && leads() && rank < n_shards_; ++rank) next_.push_back(rank);
  if (n_stages_ > 1 && !leads()) peers_.expect(before(), Channel::Orders);
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
    logits_.receive_all_but(0);  // the last stage waits until they are taken
    tell(to_bytes(end.kind, 0, end.step()));
    take_leave();
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

// All ranks meet for an order, unless there is a pipeline: then rank 0 need not wait until the last stage has done the
// order before.
void RankedCpu::tell(std::span<const std::byte> order) {
  if (n_stages_ > 1) return hand_on(order);
  all_->meet(
      order, {}, [](size_t, std::span<const std::byte>) {}, world_.timeout);
}

void RankedCpu::hand_on(std::span<const std::byte> order) {
  for (const size_t rank : next_) peers_.send(rank, Channel::Orders, order);
}

void RankedCpu::take_leave() {
  for (const size_t rank : next_) peers_.wait_until_taken(rank, Channel::Orders);
  peers_.take_leave();
}

void RankedCpu::follow() {
  for (Order order;;) {
    if (n_stages_ > 1) {
      const auto bytes = peers_.receive(before(), Channel::Orders, kForever);
      order = to_order(bytes);
      hand_on(bytes);
      peers_.expect(before(), Channel::Orders);
    } else {
      all_->meet(
          {}, {}, [&](size_t, std::span<const std::byte> bytes) { order = to_order(bytes); }, kForever);
    }
    if (order.kind == OrderKind::End) break;
    stages_.at(order.stage)->do_order(order);
  }
  take_leave();
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
  all_->meet(
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
  auto ranked =
      std::make_unique<RankedStage>(*this, std::move(inner), model.config, static_cast<uint32_t>(stages_.size()), sum,
                                    CacheFit{.block_bytes = block_bytes, .n_blocks = n_blocks});
  stages_.push_back(ranked.get());
  return ranked;
}

}  // namespace folio::infer
