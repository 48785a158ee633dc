#include "infer/shards/sharded_cpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "infer/cpu/cpu_stage.h"
#include "infer/shards/local_exchange.h"

namespace folio::infer {

// ---- Threads ----

ShardThreads::ShardThreads(size_t n, std::span<const core::MemoryNode> nodes) {
  for (size_t i = 0; i < n; ++i) {
    try {
      threads_.emplace_back([this, i, node = nodes[i % nodes.size()]] { serve(i, node); });
    } catch (const std::system_error& error) {
      stop();
      core::fail("the thread of shard {} of {} cannot be started: {}; use fewer --shards", i + 1, n,
                 error.code().message());
    }
  }
}

ShardThreads::~ShardThreads() { stop(); }

void ShardThreads::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  begin_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ShardThreads::serve(size_t index, const core::MemoryNode& node) {
  core::stay_near(node);
  for (uint64_t seen = 0;;) {
    std::unique_lock lock(mutex_);
    begin_.wait(lock, [&] { return stops_ || n_runs_ != seen; });
    if (stops_) return;
    seen = n_runs_;
    lock.unlock();
    std::exception_ptr error;
    try {
      (*work_)(index);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error && !error_) {
      error_ = error;
      if (*on_failure_) (*on_failure_)();
    }
    if (--n_left_ == 0) end_.notify_one();
  }
}

void ShardThreads::run(const std::function<void(size_t)>& work, const std::function<void()>& on_failure) {
  std::unique_lock lock(mutex_);
  work_ = &work;
  on_failure_ = &on_failure;
  n_left_ = threads_.size();
  ++n_runs_;
  begin_.notify_all();
  end_.wait(lock, [this] { return n_left_ == 0; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

// ---- The stage ----

// Its operations are put down, and done by all shards, each by itself up to the next exchange, when somebody needs what
// comes of them.
class ShardedStage final : public Stage {
 public:
  ShardedStage(ShardThreads& threads, std::shared_ptr<LocalExchange> exchange,
               std::vector<std::unique_ptr<CpuStage>> shards)
      : threads_(threads), exchange_(std::move(exchange)), shards_(std::move(shards)) {
    for (const auto& shard : shards_) {
      const LoadReport& report = shard->load_report();
      report_.weight_bytes += report.weight_bytes;
      report_.repacked_bytes += report.repacked_bytes;
      report_.repack_seconds = std::max(report_.repack_seconds, report.repack_seconds);
    }
  }

  [[nodiscard]] LayerRange layers() const override { return first().layers(); }
  [[nodiscard]] const StageWeights& weights() const override { return first().weights(); }
  [[nodiscard]] size_t width(Slot slot) const override { return first().width(slot); }
  [[nodiscard]] const LoadReport& load_report() const override { return report_; }
  [[nodiscard]] CacheFit cache_fit() const override {
    size_t bytes = 0;
    for (const auto& shard : shards_) bytes += shard->cache_fit().block_bytes;
    const CacheFit one = first().cache_fit();
    const uint64_t memory = static_cast<uint64_t>(one.n_blocks) * std::max<size_t>(1, one.block_bytes);
    return {.block_bytes = bytes, .n_blocks = static_cast<int64_t>(memory / std::max<size_t>(1, bytes))};
  }
  void load_adapter(int32_t number, std::shared_ptr<const core::Adapter> adapter) override {
    for (const auto& shard : shards_) shard->load_adapter(number, adapter);
  }
  void unload_adapter(int32_t number) override {
    for (const auto& shard : shards_) shard->unload_adapter(number);
  }

  // What the step refers to is there until end().
  void begin(const Step& step) override {
    operations_.clear();
    issue([step](CpuStage& s) { s.begin(step); });
  }
  void embed(WeightId table) override {
    issue([=](CpuStage& s) { s.embed(table); });
  }
  void norm(WeightId weight) override {
    issue([=](CpuStage& s) { s.norm(weight); });
  }
  void norm_heads(Slot slot, WeightId weight) override {
    require_heads(slot);
    issue([=](CpuStage& s) { s.norm_heads(slot, weight); });
  }
  void project(Slot in, std::span<const Projection> projections) override {
    issue([in, all = std::vector(projections.begin(), projections.end())](CpuStage& s) { s.project(in, all); });
  }
  void project_to_residual(Slot in, WeightId weight, WeightId bias, WeightId post_norm) override {
    issue([=](CpuStage& s) { s.project_to_residual(in, weight, bias, post_norm); });
  }
  void rotate_and_store(int64_t layer) override {
    issue([=](CpuStage& s) { s.rotate_and_store(layer); });
  }
  void attend(int64_t layer, WeightId sinks) override {
    issue([=](CpuStage& s) { s.attend(layer, sinks); });
  }
  void activate(Slot gate, Slot up) override {
    issue([=](CpuStage& s) { s.activate(gate, up); });
  }
  void route(const Router& router) override {
    issue([=](CpuStage& s) { s.route(router); });
  }
  void project_experts(const ExpertMatrix& gate, const ExpertMatrix& up) override {
    issue([=](CpuStage& s) { s.project_experts(gate, up); });
  }
  void combine_experts(const ExpertMatrix& down) override {
    issue([=](CpuStage& s) { s.combine_experts(down); });
  }
  void gate_rows(Slot slot, WeightId weight) override {
    issue([=](CpuStage& s) { s.gate_rows(slot, weight); });
  }
  void finish_logits() override {
    issue([](CpuStage& s) { s.finish_logits(); });
  }
  void gather() override {
    issue([](CpuStage& s) { s.gather(); });
  }
  void end() override { flush(); }
  Ticket fetch_logits() override { return {}; }
  std::span<float> wait(Ticket ticket) override {
    flush();
    return first().wait(ticket);
  }
  void read(Slot slot, std::span<float> values) override {
    flush();
    first().read(slot, values);
  }
  void write(Slot slot, std::span<const float> values) override {
    flush();
    for (const auto& shard : shards_) shard->write(slot, values);
  }

 private:
  using Operation = std::function<void(CpuStage&)>;

  [[nodiscard]] CpuStage& first() const { return *shards_.front(); }
  void issue(Operation operation) { operations_.push_back(std::move(operation)); }

  void flush() {
    if (operations_.empty()) return;
    const std::vector<Operation> operations = std::exchange(operations_, {});
    try {
      threads_.run(
          [&](size_t rank) {
            for (const Operation& operation : operations) operation(*shards_[rank]);
          },
          [this] { exchange_->break_off(); });
    } catch (...) {
      exchange_->reset();
      throw;
    }
  }

  ShardThreads& threads_;
  std::shared_ptr<LocalExchange> exchange_;
  std::vector<std::unique_ptr<CpuStage>> shards_;
  LoadReport report_;
  std::vector<Operation> operations_;
};

// ---- The machine ----

ShardedCpu::ShardedCpu(size_t n_shards, const CpuOptions& options, std::span<const core::MemoryNode> nodes)
    : threads_(n_shards, nodes), cpus_(n_shards) {
  const size_t n_threads = options.n_threads == 0 ? core::default_threads() : options.n_threads;
  threads_.run([&](size_t i) {  // so that its threads and its memory are where it is
    CpuOptions own = options;
    const Share share = share_of(std::max(n_threads, n_shards), i, n_shards);
    own.n_threads = share.last - share.first;
    own.copies_weights = options.copies_weights || nodes.size() > 1;
    cpus_[i] = std::make_unique<Cpu>(own);
  });
}

ShardedCpu::~ShardedCpu() = default;

size_t ShardedCpu::n_threads() const {
  size_t n = 0;
  for (const auto& cpu : cpus_) n += cpu->n_threads();
  return n;
}

std::string ShardedCpu::describe() const {
  return fmt::format("{} shards with {} threads in all, {}", n_shards(), n_threads(),
                     core::isa_name(cpus_.front()->kernels().isa));
}

std::unique_ptr<Stage> ShardedCpu::load(const core::StoredModel& model, const Shard& shard, CacheType cache_type) {
  require_whole(shard, "a machine of shards");
  const auto dim = static_cast<size_t>(model.config.dim);
  core::require(n_shards() <= shard_tiles(dim),
                "{} shards are more than the {} tiles of {} rows that {}'s width of {} has; take fewer shards",
                n_shards(), shard_tiles(dim), kShardRows, model.path, dim);
  const auto exchange = std::make_shared<LocalExchange>(n_shards());
  std::vector<std::unique_ptr<CpuStage>> shards(n_shards());
  threads_.run([&](size_t i) {
    const Shard own{.layers = shard.layers, .rank = i, .n_ranks = n_shards(), .exchange = exchange.get()};
    auto stage = cpus_[i]->load(model, own, cache_type);
    shards[i].reset(static_cast<CpuStage*>(stage.release()));
  });
  exchanges_.push_back(exchange);
  return std::make_unique<ShardedStage>(threads_, exchange, std::move(shards));
}

uint64_t ShardedCpu::exchanged_bytes() const {
  uint64_t sum = 0;
  for (const auto& weak : exchanges_) {
    if (const auto exchange = weak.lock()) sum += exchange->bytes();
  }
  return sum;
}

size_t default_shards(size_t n_nodes, size_t n_threads, const core::ModelConfig& config) {
  return std::min({n_nodes, n_threads, shard_tiles(static_cast<size_t>(config.dim))});
}

uint64_t exchanged_bytes(const core::ModelConfig& config, size_t n_shards, size_t rows, size_t logit_rows) {
  const SlotWidths widths = slot_widths(config);
  const auto width = [&](Slot slot) { return widths[static_cast<size_t>(slot)]; };
  size_t to_all = rows * width(Slot::Residual);
  for (int64_t l = 0; l < config.n_layers; ++l) {
    to_all += rows * (width(Slot::Query) + width(Slot::Key) + width(Slot::Value));
    size_t behind = width(Slot::Heads) + width(Slot::Residual);
    const bool experts = config.has_experts(l);
    if (experts) behind += width(Slot::Routes) + width(Slot::ExpertGate) + width(Slot::Residual);
    if (!experts) behind += width(Slot::Gate) + width(Slot::Residual);
    if (experts && config.shared_dim > 0) behind += width(Slot::SharedGate) + width(Slot::Residual);
    to_all += behind * (l + 1 < config.n_layers ? rows : logit_rows);  // see Stage::gather()
  }
  const size_t own = rows_of_rank(width(Slot::Logits), 0, n_shards).last;
  return sizeof(float) * ((n_shards - 1) * to_all + logit_rows * (width(Slot::Logits) - own));
}

}  // namespace folio::infer
