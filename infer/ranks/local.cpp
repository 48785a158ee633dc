#include "infer/ranks/local.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/thread_pool.h"

namespace folio::infer {
namespace {

constexpr int kSpins = 1000;  // spins before a thread sleeps: about 10 µs, enough unless another thread was descheduled

}  // namespace

ShardThreads::ShardThreads(size_t n, std::span<const core::MemoryNode> nodes) {
  for (size_t i = 0; i < n; ++i) {
    try {
      threads_.emplace_back([this, i, node = nodes[i % nodes.size()]] { serve(i, node); });
    } catch (const std::system_error& error) {
      stop();
      core::fail("cannot start the thread of shard {} of {}: {}; use fewer --shards", i + 1, n, error.code().message());
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

class LocalGroup::Member final : public Transport {
 public:
  Member(LocalGroup& group, size_t index) : group_(group), index_(index) {}

  // A member that has entered round r + 1 has read all messages of round r, so only the messages of two rounds are
  // stored.
  void all_gather(std::span<const std::byte> bytes, size_t n_to_all, const Take& take,
                  std::chrono::seconds /*timeout*/) override {
    const uint32_t round = group_.n_rounds_.load(std::memory_order_acquire);
    group_.check();  // after a failure, throws: another member may still read given_, which must not be overwritten
    std::vector<Given>& given = group_.given_[round % 2];
    given[index_] = {bytes, n_to_all};
    group_.wait_for_all(round);
    for (size_t from = 0; from < given.size(); ++from) {
      const auto got = given[from].bytes.first(index_ == 0 ? given[from].bytes.size() : given[from].n_to_all);
      if (from != index_ && !got.empty()) take(from, got);
    }
  }

 private:
  LocalGroup& group_;
  size_t index_;
};

LocalGroup::LocalGroup(size_t n_members) { given_.fill(std::vector<Given>(n_members)); }

std::unique_ptr<Transport> LocalGroup::member(size_t index) { return std::make_unique<Member>(*this, index); }

// Waits until all members have arrived in the round: spins briefly, then sleeps.
void LocalGroup::wait_for_all(uint32_t round) {
  check();  // after a failure, other members may never arrive
  if (n_here_.fetch_add(1, std::memory_order_acq_rel) + 1 == given_[0].size()) {
    n_here_.store(0, std::memory_order_relaxed);
    n_rounds_.store(round + 1, std::memory_order_release);
    n_rounds_.notify_all();
  } else {
    for (int spin = 0; spin < kSpins && n_rounds_.load(std::memory_order_acquire) == round; ++spin) {
      core::pause_cpu();
    }
    n_rounds_.wait(round, std::memory_order_acquire);
  }
  check();
}

void LocalGroup::check() const { core::require(!broken_.load(std::memory_order_acquire), "another shard failed"); }

void LocalGroup::break_off() {
  broken_.store(true, std::memory_order_release);
  n_rounds_.fetch_add(1, std::memory_order_release);
  n_rounds_.notify_all();
}

void LocalGroup::reset() {
  broken_.store(false, std::memory_order_relaxed);
  n_here_.store(0, std::memory_order_relaxed);
}

// Queues operations until a result is needed. Then each shard's thread runs all of them, and the threads wait for each
// other only at exchanges.
class ShardedStage final : public Stage {
 public:
  ShardedStage(ShardThreads& threads, LocalGroup& group, std::vector<std::unique_ptr<Stage>> shards)
      : threads_(threads), group_(group), shards_(std::move(shards)), info_(shards_.front()->info()) {
    info_.load_report = report().load;
  }

  [[nodiscard]] const StageInfo& info() const override { return info_; }
  /// Starts a step without copying: the data that `step` refers to must stay valid until end().
  bool begin(const Step& step) override {
    operations_.clear();
    step_ = step;
    return false;
  }
  void issue(const Operation& operation) override { operations_.push_back(operation); }
  void end() override { flush(); }

  [[nodiscard]] CacheFit cache_fit() const override { return report().fit; }
  void load_adapter(int32_t number, const core::Adapter& adapter) override {
    for (const auto& shard : shards_) shard->load_adapter(number, adapter);
  }
  void unload_adapter(int32_t number) override {
    for (const auto& shard : shards_) shard->unload_adapter(number);
  }

  Ticket fetch_logits() override { return {}; }
  std::span<float> wait(Ticket ticket) override { return shards_.front()->wait(ticket); }
  void read(Slot slot, std::span<float> values) override {
    flush();
    shards_.front()->read(slot, values);
  }
  void write(Slot slot, std::span<const float> values) override {
    flush();
    for (const auto& shard : shards_) shard->write(slot, values);
  }

 private:
  [[nodiscard]] RankReport report() const {
    std::vector<RankReport> reports;
    for (const auto& shard : shards_) {
      reports.push_back({.load = shard->info().load_report, .fit = shard->cache_fit()});
    }
    return sum_of(reports, reports.size());
  }

  void flush() {
    const auto step = std::exchange(step_, {});
    if (!step && operations_.empty()) return;
    const auto work = [&](size_t rank) {
      if (step) static_cast<void>(shards_[rank]->begin(*step));
      for (const Operation& operation : operations_) shards_[rank]->issue(operation);
    };
    try {
      threads_.run(work, [this] { group_.break_off(); });
    } catch (...) {
      operations_.clear();
      group_.reset();
      throw;
    }
    operations_.clear();
  }

  ShardThreads& threads_;
  LocalGroup& group_;
  std::vector<std::unique_ptr<Stage>> shards_;
  StageInfo info_;
  std::optional<Step> step_;  ///< step that the shards must begin before operations_; nullopt: already begun
  std::vector<Operation> operations_;
};

ShardedCpu::ShardedCpu(size_t n_shards, const CpuOptions& options, std::span<const core::MemoryNode> nodes)
    : threads_(n_shards, nodes), group_(n_shards), cpus_(n_shards) {
  for (size_t i = 0; i < n_shards; ++i) {
    exchanges_.push_back(std::make_unique<Exchange>(group_.member(i), i, n_shards, std::chrono::seconds::max(), false));
  }
  const size_t n_threads = options.n_threads == 0 ? core::default_threads() : options.n_threads;
  // Creates each backend on its shard's thread, so that its memory and threads are on the shard's memory node.
  threads_.run([&](size_t i) {
    CpuOptions own = options;
    const Share share = share_of(std::max(n_threads, n_shards), i, n_shards);
    own.n_threads = share.last - share.first;
    own.copies_weights = options.copies_weights || nodes.size() > 1;
    cpus_[i] = std::make_unique<Cpu>(own);
  });
}

size_t ShardedCpu::n_threads() const {
  size_t n = 0;
  for (const auto& cpu : cpus_) n += cpu->n_threads();
  return n;
}

std::string ShardedCpu::describe() const {
  return fmt::format("{} shards with {} threads in total, {}", cpus_.size(), n_threads(),
                     core::isa_name(cpus_.front()->kernels().isa));
}

std::unique_ptr<Stage> ShardedCpu::load(const core::StoredModel& model, const Shard& shard, CacheType cache_type) {
  require_whole(shard, "a sharded CPU");
  require_tiles(model, cpus_.size(), "shards", "shards");
  std::vector<std::unique_ptr<Stage>> shards(cpus_.size());
  threads_.run([&](size_t i) {
    const Shard own{.layers = shard.layers, .rank = i, .n_ranks = cpus_.size(), .exchange = exchanges_[i].get()};
    shards[i] = cpus_[i]->load(model, own, cache_type);
  });
  return std::make_unique<ShardedStage>(threads_, group_, std::move(shards));
}

uint64_t ShardedCpu::exchanged_bytes() const {
  uint64_t sum = 0;
  for (const auto& exchange : exchanges_) sum += exchange->sent_bytes();
  return sum;
}

size_t default_shards(size_t n_nodes, size_t n_threads, const core::ModelConfig& config) {
  return std::min({n_nodes, n_threads, shard_tiles(static_cast<size_t>(config.dim))});
}

}  // namespace folio::infer
