#include "train/report/ngram.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/random.h"

namespace folio::train {
namespace {

// Returns the hash table's key for a node's child. Keys are unique for n-grams of any length, since the node identifies
// all previous tokens.
uint64_t key_of(uint32_t node, int32_t token) { return (uint64_t{node} << 32U) | static_cast<uint32_t>(token); }

}  // namespace

NgramCounts::NgramCounts(std::span<const int32_t> train, int32_t vocab_size, int max_order)
    : vocab_size_(vocab_size), max_order_(max_order), nodes_(1), slots_(size_t{1} << 16U) {
  core::require(max_order >= 1 && max_order <= kMaxOrder, "the order of an n-gram is {}, expected 1 to {}", max_order,
                kMaxOrder);
  Contexts contexts;
  for (const int32_t token : train) {
    Contexts next;
    for (int k = 0; k <= contexts.known; ++k) {
      const NodeId child = child_or_new(contexts.node[k], token);
      nodes_[contexts.node[k]].followers += 1;
      nodes_[child].count += 1;
      if (k + 1 < max_order) next.node[k + 1] = child;
    }
    next.known = std::min(contexts.known + 1, max_order - 1);
    contexts = next;
  }
}

size_t NgramCounts::slot_of(uint64_t key) const {
  const size_t mask = slots_.size() - 1;
  size_t at = core::splitmix64(key) & mask;
  while (slots_[at].key != key && slots_[at].key != kEmpty) at = (at + 1) & mask;
  return at;
}

NgramCounts::NodeId NgramCounts::child_of(NodeId node, int32_t token) const {
  return node == kUnseen ? kUnseen : slots_[slot_of(key_of(node, token))].child;
}

NgramCounts::NodeId NgramCounts::child_or_new(NodeId node, int32_t token) {
  const uint64_t key = key_of(node, token);
  Slot& slot = slots_[slot_of(key)];
  if (slot.key == key) return slot.child;
  const auto child = static_cast<NodeId>(nodes_.size());
  slot = {.key = key, .child = child};
  nodes_.emplace_back();
  nodes_[node].distinct_followers += 1;
  if (2 * nodes_.size() > slots_.size()) grow();
  return child;
}

void NgramCounts::grow() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.key != kEmpty) slots_[slot_of(slot.key)] = slot;
  }
}

void NgramCounts::advance(Contexts& contexts, int32_t token, int order) const {
  for (int k = std::min(contexts.known + 1, order - 1); k >= 1; --k) {
    contexts.node[k] = child_of(contexts.node[k - 1], token);
  }
  contexts.known = std::min(contexts.known + 1, order - 1);
}

double NgramCounts::add_k(const Contexts& contexts, int32_t token, int order, double k) const {
  const NodeId context = contexts.node[std::min(contexts.known, order - 1)];
  const NodeId ngram = child_of(context, token);
  const double context_count = context == kUnseen ? 0.0 : nodes_[context].followers;
  const double ngram_count = ngram == kUnseen ? 0.0 : nodes_[ngram].count;
  const double denominator = context_count + k * vocab_size_;
  return denominator == 0.0 ? 1.0 / vocab_size_ : (ngram_count + k) / denominator;
}

double NgramCounts::witten_bell(const Contexts& contexts, int32_t token, int order) const {
  double probability = 1.0 / vocab_size_;
  for (int k = 0; k <= std::min(contexts.known, order - 1); ++k) {
    if (contexts.node[k] == kUnseen) break;  // longer contexts contain this one, so they are unseen too
    const Node& context = nodes_[contexts.node[k]];
    if (context.followers == 0) break;  // no token followed this context in training, so none followed longer ones
    const NodeId ngram = child_of(contexts.node[k], token);
    const double ngram_count = ngram == kUnseen ? 0.0 : nodes_[ngram].count;
    const double distinct = context.distinct_followers;
    probability = (ngram_count + distinct * probability) / (context.followers + distinct);
  }
  return probability;
}

double NgramCounts::loss(std::span<const int32_t> split, int order, std::optional<double> k) const {
  core::require(order >= 1 && order <= max_order_, "n-grams of order {} were not counted, expected 1 to {}", order,
                max_order_);
  Contexts contexts;
  double sum = 0.0;
  for (const int32_t token : split) {
    sum -= std::log(k ? add_k(contexts, token, order, *k) : witten_bell(contexts, token, order));
    advance(contexts, token, order);
  }
  return sum / static_cast<double>(split.size());
}

}  // namespace folio::train
