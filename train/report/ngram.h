// N-gram language models: baselines that a network must beat. All n-grams of up to `max_order` tokens are counted in
// one pass into a trie, for any size of vocabulary.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace folio::train {

/// An n-gram of order n predicts a token from its context, the n - 1 tokens before it; at the beginning of a split from
/// fewer. Losses are in nats per token, the mean over all tokens of the split.
class NgramCounts {
 public:
  static constexpr int kMaxOrder = 16;

  /// Counts `train`, whose tokens are in [0, vocab_size). Costs about 10 ns per token and order, and 50 bytes per
  /// distinct n-gram. Throws core::Error if max_order is not in [1, kMaxOrder].
  NgramCounts(std::span<const int32_t> train, int32_t vocab_size, int max_order);

  // Both are infinite if a token of the split has the probability 0, and throw core::Error for an order that was not
  // counted. h is the context, the last order - 1 tokens, and V the size of the vocabulary.

  /// The loss of P(w | h) = (c(hw) + k) / (c(h) + k V): add-k (Lidstone) smoothing. With k = 0, these are the relative
  /// frequencies, and after a context that never occurred every token has probability 1 / V.
  [[nodiscard]] double add_k_loss(std::span<const int32_t> split, int order, double k) const {
    return loss(split, order, k);
  }
  /// The loss of P_n(w | h) = (c(hw) + T(h) P_{n-1}(w | h')) / (c(h) + T(h)): Witten & Bell 1991, method C,
  /// interpolated. T(h) is the number of distinct tokens after h, h' is h without its first token, and P_0 = 1 / V.
  [[nodiscard]] double witten_bell_loss(std::span<const int32_t> split, int order) const {
    return loss(split, order, {});
  }

  /// How many distinct n-grams of any order up to max_order occur.
  [[nodiscard]] size_t distinct() const { return nodes_.size() - 1; }

 private:
  using NodeId = uint32_t;
  static constexpr NodeId kUnseen = ~NodeId{0};

  // One n-gram, a path from the root. As a context h, it is followed `followers` = c(h) times by
  // `distinct_followers` = T(h) different tokens.
  struct Node {
    uint32_t count = 0;
    uint32_t followers = 0;
    uint32_t distinct_followers = 0;
  };
  struct Slot {
    uint64_t key = kEmpty;
    NodeId child = kUnseen;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};

  // The contexts at one place of a text: node[k] is the n-gram of the k tokens before it, or kUnseen.
  struct Contexts {
    int known = 0;  // node[0] to node[known] are set
    NodeId node[kMaxOrder] = {0};
  };

  [[nodiscard]] size_t slot_of(uint64_t key) const;
  [[nodiscard]] NodeId child_of(NodeId node, int32_t token) const;
  NodeId child_or_new(NodeId node, int32_t token);
  void grow();

  void advance(Contexts& contexts, int32_t token, int order) const;
  [[nodiscard]] double add_k(const Contexts& contexts, int32_t token, int order, double k) const;
  [[nodiscard]] double witten_bell(const Contexts& contexts, int32_t token, int order) const;
  /// `k` of add-k smoothing; empty: Witten-Bell.
  [[nodiscard]] double loss(std::span<const int32_t> split, int order, std::optional<double> k) const;

  int32_t vocab_size_;
  int max_order_;
  std::vector<Node> nodes_;  // nodes_[0] is the root, the empty context
  std::vector<Slot> slots_;  // open addressing: (parent node, token) to child; the size is a power of two
};

}  // namespace folio::train
