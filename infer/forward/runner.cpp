#include "infer/forward/runner.h"

#include <algorithm>
#include <array>
#include <limits>

#include "core/error.h"

namespace folio::infer {
namespace {

using core::require;

std::vector<std::unique_ptr<Stage>> load_stages(const core::StoredModel& model, std::span<const Placement> placements,
                                                CacheType cache_type) {
  std::vector<std::unique_ptr<Stage>> stages;
  int64_t next = 0;
  for (const Placement& p : placements) {
    require(p.layers.first == next, "layers {} to {} are out of order: layer {} is next", p.layers.first, p.layers.last,
            next);
    require(p.layers.last > next, "a machine has an empty range of layers: {} to {}", p.layers.first, p.layers.last);
    next = p.layers.last;
    stages.push_back(p.machine.load(model, {.layers = p.layers}, cache_type));
  }
  const int64_t n_layers = all_layers(model.config).last;
  require(next == n_layers, "{} layers were placed, but the model has {}", next, n_layers);
  return stages;
}

// Returns the number of cache blocks: enough whole blocks for each sequence, but no more than fit on every machine.
int64_t n_blocks(std::span<const std::unique_ptr<Stage>> stages, const core::ModelConfig& config,
                 const CacheOptions& options) {
  int64_t fit = std::numeric_limits<int32_t>::max();
  for (const auto& stage : stages) fit = std::min(fit, stage->cache_fit().n_blocks);
  fit = static_cast<int64_t>(static_cast<double>(fit) * options.share);
  require(fit >= 1, "no memory is left for the KV cache; use a smaller model");
  const int64_t each = blocks_for(options.max_positions == 0 ? config.context_length : options.max_positions);
  return options.n_sequences > fit / each ? fit : each * options.n_sequences;
}

// Returns the result of `run`, whose cache reservations are committed, or rolled back if it throws.
template <typename Run>
auto committed(BlockManager& cache, Run run) {
  try {
    auto result = run();
    cache.commit();
    return result;
  } catch (...) {
    cache.roll_back();
    throw;
  }
}

}  // namespace

Runner::Runner(const core::StoredModel& model, std::span<const Placement> placements, const CacheOptions& options)
    : model_(model),
      stages_(load_stages(model, placements, options.type)),
      cache_(n_blocks(stages_, model.config, options)) {
  for (const auto& stage : stages_) {
    const LoadReport& report = stage->info().load_report;
    load_report_.weight_bytes += report.weight_bytes;
    load_report_.repacked_bytes += report.repacked_bytes;
    load_report_.repack_seconds += report.repack_seconds;
    block_bytes_ += stage->cache_fit().block_bytes;
    max_rows_ = std::min(max_rows_, stage->info().max_rows);
    stage->reserve_cache(cache_.n_blocks());
  }
}

Runner::Runner(const core::StoredModel& model, Machine& machine, const CacheOptions& options)
    : Runner(model, std::array{Placement{machine, all_layers(model.config)}}, options) {}

int32_t Runner::load_adapter(const core::Adapter& adapter) {
  const int32_t number = n_adapters_++;
  try {
    for (const auto& stage : stages_) stage->load_adapter(number, adapter);
    adapters_.insert(number);
  } catch (...) {  // one stage failed: unload from all
    for (const auto& stage : stages_) stage->unload_adapter(number);
    throw;
  }
  return number;
}

void Runner::unload_adapter(int32_t number) {
  require(adapters_.erase(number) > 0, "adapter {} is not loaded", number);
  for (const auto& stage : stages_) stage->unload_adapter(number);
}

void Runner::require_adapter(int32_t number) const {
  require(number == kNoAdapter || adapters_.contains(number), "adapter {} is not loaded", number);
}

StepOutput Runner::forward(std::span<const Row> rows, const Observer& observer) {
  if (rows.empty()) return {};
  return committed(cache_, [&] { return collect(start(rows, observer)); });
}

std::vector<float> Runner::logits_of(std::span<const float> residual, bool finished) {
  Stage& last = *stages_.back();
  const size_t n = residual.size() / last.width(Slot::Residual);
  require(n >= 1 && n <= max_rows_, "{} rows need logits, expected 1 to {}", n, max_rows_);
  const std::vector<StepRow> rows(n, {.token = 0, .table = 0, .position = 0, .needs_logits = true});
  constexpr std::array<int32_t, 2> kEmptyTable{0, 0};
  ++n_issued_;
  n_fed_ = 0;
  static_cast<void>(last.begin({.rows = rows,
                                .tables = {},
                                .table_starts = kEmptyTable,
                                .copies = {},
                                .n_logit_rows = n,
                                .draws = {},
                                .observed = true,
                                .residual = residual}));
  last.issue(Norm{last.weights()(core::Role::OutputNorm)});
  last.issue(Project(Slot::Normed, std::array{Projection{last.weights()(core::Role::Output), {}, Slot::Logits}}));
  if (finished) last.issue(FinishLogits{});
  std::vector<float> logits(n * last.width(Slot::Logits));
  last.read(Slot::Logits, logits);
  last.end();
  return logits;
}

Issued Runner::issue(std::span<const Row> rows, const Observer& observer) {
  return committed(cache_, [&] { return start(rows, observer); });
}

Issued Runner::start(std::span<const Row> rows, const Observer& observer) {
  check(rows);
  for (const SequenceRows& part : sequences_) cache_.reserve(part.sequence, part.count);
  Issued issued = build_step(rows);
  Stage& last = *stages_.back();
  const bool on_host =
      !last.info().draws || std::ranges::any_of(issued.draws, [](const Draw& d) { return d.sampler->on_host(); });
  const Step step{.rows = rows_,
                  .tables = tables_,
                  .table_starts = table_starts_,
                  .copies = cache_.copies(),
                  .n_logit_rows = n_logit_rows_,
                  .draws = on_host ? std::span<const Draw>{} : issued.draws,
                  .observed = static_cast<bool>(observer),
                  .residual = residual_,
                  .keeps_hidden = issued.n_hidden > 0 && !observer};
  if (observer) issued.n_hidden = 0;
  ++n_issued_;
  issued.drawn_on_host = on_host;
  n_fed_ = 0;  // if issuing the step throws, the next step can't use its draws
  infer::forward(stages_, step, observer);
  if (on_host ? n_logit_rows_ > 0 : !issued.reported.empty()) issued.logits = last.fetch_logits();
  if (!step.draws.empty()) issued.tokens = last.fetch_tokens();
  if (stages_.size() == 1 && !issued.logits && !observer && !step.keeps_hidden) n_fed_ = step.draws.size();
  return issued;
}

// Waits for a step's results, draws its tokens if the stage does not, and moves the requested logits to the front.
StepOutput Runner::collect(const Issued& issued) {
  Stage& last = *stages_.back();
  std::span<float> logits;  // (rows that need logits, vocab_size)
  if (issued.logits) logits = last.wait(*issued.logits);
  std::span<const int32_t> tokens;
  if (issued.tokens) tokens = last.wait_tokens(*issued.tokens);
  if (issued.drawn_on_host) tokens = draw_on_host(issued, logits);
  hidden_.resize(issued.n_hidden * static_cast<size_t>(config().dim));
  if (issued.n_hidden > 0) last.read(Slot::Hidden, hidden_);
  if (!issued.logits) return {.logits = {}, .tokens = tokens, .hidden = hidden_};
  const auto vocab_size = static_cast<size_t>(config().vocab_size);
  const std::vector<size_t>& reported = issued.reported;
  for (size_t i = 0; i < reported.size(); ++i) {
    if (reported[i] == i) continue;
    std::copy_n(logits.begin() + static_cast<std::ptrdiff_t>(reported[i] * vocab_size), vocab_size,
                logits.begin() + static_cast<std::ptrdiff_t>(i * vocab_size));
  }
  return {.logits = logits.first(reported.size() * vocab_size), .tokens = tokens, .hidden = hidden_};
}

// Draws a step's tokens. A sampler overwrites its logits, so logits that the caller requested are copied first.
std::span<const int32_t> Runner::draw_on_host(const Issued& issued, std::span<float> logits) {
  const auto vocab_size = static_cast<size_t>(config().vocab_size);
  tokens_.clear();
  for (const Draw& draw : issued.draws) {
    if (draw.sampler == nullptr) {
      tokens_.push_back(kNothingLeft);
      continue;
    }
    std::span<float> row = logits.subspan(draw.row * vocab_size, vocab_size);
    if (std::ranges::binary_search(issued.reported, draw.row)) {
      scratch_.assign(row.begin(), row.end());
      row = scratch_;
    }
    tokens_.push_back(draw.sampler->draw(row, draw.history, draw.position));
  }
  return tokens_;
}

// Validates the rows. Lists the step's sequences and their row counts in sequences_; rows_of_ maps ids to its indices.
void Runner::check(std::span<const Row> rows) {
  require(rows.size() <= max_rows_, "a step has {} rows, but at most {} are supported", rows.size(), max_rows_);
  for (const SequenceRows& part : sequences_) rows_of_[static_cast<size_t>(part.sequence)] = -1;
  sequences_.clear();
  for (const Row& row : rows) {
    const bool fed = row.token < 0 && row.token >= -static_cast<int32_t>(n_fed_);
    require(fed || (row.token >= 0 && row.token < config().vocab_size), "token {} is outside the vocabulary of {}",
            row.token, config().vocab_size);
    require(!fed || row.sampler == nullptr || !row.sampler->options().needs_history(),
            "a penalty needs the token of sequence {} at position {}, which is not sampled yet", row.sequence,
            row.position);
    const int64_t length = cache_.length(row.sequence);
    const auto sequence = static_cast<size_t>(row.sequence);
    if (sequence >= rows_of_.size()) rows_of_.resize(sequence + 1, -1);
    if (rows_of_[sequence] < 0) {
      require_adapter(cache_.adapter(row.sequence));
      rows_of_[sequence] = static_cast<int32_t>(sequences_.size());
      sequences_.push_back({.sequence = row.sequence, .count = 0});
    }
    int64_t& count = sequences_[static_cast<size_t>(rows_of_[sequence])].count;
    require(row.position == length + count, "sequence {} continues at position {}, not {}", row.sequence,
            length + count, row.position);
    const size_t n_hidden = config().n_layers > 0 ? 0 : static_cast<size_t>(config().dim);  // n_layers 0: MTP module
    require(row.hidden.size() == n_hidden, "a row has {} elements of a hidden state, expected {}", row.hidden.size(),
            n_hidden);
    require(row.position < config().context_length, "position {} is past the context of {}", row.position,
            config().context_length);
    ++count;
  }
}

Issued Runner::build_step(std::span<const Row> rows) {
  tables_.clear();
  table_starts_.assign(1, 0);
  for (const SequenceRows& part : sequences_) {
    const auto table = cache_.table(part.sequence);
    tables_.insert(tables_.end(), table.begin(), table.end());
    table_starts_.push_back(static_cast<int32_t>(tables_.size()));
  }
  rows_.clear();
  residual_.clear();
  n_logit_rows_ = 0;
  Issued issued;
  for (const Row& row : rows) {
    const bool needs_logits = row.wants_logits || row.sampler != nullptr;
    rows_.push_back({.token = row.token,
                     .table = rows_of_[static_cast<size_t>(row.sequence)],
                     .position = row.position,
                     .needs_logits = needs_logits,
                     .adapter = cache_.adapter(row.sequence)});
    residual_.insert(residual_.end(), row.hidden.begin(), row.hidden.end());
    if (row.keeps_hidden) issued.n_hidden = rows.size();
    if (row.wants_logits) issued.reported.push_back(n_logit_rows_);
    if (row.sampler != nullptr) {
      issued.draws.push_back({.row = n_logit_rows_,
                              .sampler = row.sampler,
                              .history = row.history,
                              .position = static_cast<int64_t>(row.history.size() + (row.token < 0 ? 1 : 0))});
    }
    n_logit_rows_ += needs_logits ? 1 : 0;
  }
  return issued;
}

}  // namespace folio::infer
