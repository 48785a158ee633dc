// N-gram language models, the baselines that a network must beat. Counts all n-grams of up to `max_order` tokens in one
// pass into a trie, for any vocabulary size.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace folio::train {

/// An n-gram model of order n predicts a token from its context, the previous n - 1 tokens (fewer at the beginning of a
/// split). Losses are in nats per token, averaged over all tokens of a split.
class NgramCounts {
 public:
  static constexpr int kMaxOrder = 16;

  /// Counts the n-grams of `train`, whose tokens are in [0, vocab_size). Costs about 10 ns per token and order, and 50
  /// bytes per distinct n-gram. Throws core::Error if max_order is not in [1, kMaxOrder].
  NgramCounts(std::span<const int32_t> train, int32_t vocab_size, int max_order);

  // The functions below return an infinite loss if a token of the split has probability 0, and throw core::Error if
  // `order` is not in [1, max_order]. h is the context (the last order - 1 tokens), c a count, V the vocabulary size.

  /// Returns the loss with add-k (Lidstone) smoothing: P(w | h) = (c(hw) + k) / (c(h) + k V). k = 0 gives relative
  /// frequencies, and probability 1 / V after an unseen context.
  [[nodiscard]] double add_k_loss(std::span<const int32_t> split, int order, double k) const {
    return loss(split, order, k);
  }
  /// Returns the loss with interpolated Witten-Bell smoothing (1991, method C), with P_0 = 1 / V (vocabulary size):
  ///   P_n(w | h) = (c(hw) + T(h) P_{n-1}(w | h')) / (c(h) + T(h))
  /// T(h) is the number of distinct tokens that follow h in training; h' is h without its first token.
  [[nodiscard]] double witten_bell_loss(std::span<const int32_t> split, int order) const {
    return loss(split, order, {});
  }

  /// Returns the number of distinct n-grams of all orders up to max_order.
  [[nodiscard]] size_t distinct() const { return nodes_.size() - 1; }

 private:
  using NodeId = uint32_t;
  static constexpr NodeId kUnseen = ~NodeId{0};

  // An n-gram, as a path from the root of the trie. It occurs `count` times. As the context h of the next token, it was
  // followed by c(h) = `followers` tokens, of which T(h) = `distinct_followers` are distinct.
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

  // The contexts at one position of a text: node[k] is the n-gram of the previous k tokens, or kUnseen.
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
  /// Returns the loss with add-k smoothing, or Witten-Bell smoothing if k is empty.
  [[nodiscard]] double loss(std::span<const int32_t> split, int order, std::optional<double> k) const;

  int32_t vocab_size_;
  int max_order_;
  std::vector<Node> nodes_;  // nodes_[0] is the root, the empty context
  std::vector<Slot> slots_;  // hash table from (parent node, token) to child; open addressing, size is a power of two
};

}  // namespace folio::train
