// Tracks which bytes and tokens may come next in an output constrained by a grammar, and whether it may end. A place is
// the set of all parses of the output so far: grammar states, each with a stack of return states. Places are computed
// on demand, numbered and cached, so reaching one again costs nothing. Their total size is limited; forget() frees
// them. Not thread-safe.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/error.h"
#include "data/tokenizers/tokenizer.h"
#include "infer/forms/grammar.h"
#include "infer/forms/key_set.h"

namespace folio::infer::forms {

/// The vocabulary's tokens, sorted by bytes, as a prefix tree. Tokens without bytes (control tokens) are left out.
class TokenTree {
 public:
  struct Node {
    uint8_t byte;               ///< last byte of the path to this node
    uint32_t next;              ///< index of the node after this subtree; a first child is at this node's index + 1
    uint32_t first, own, last;  ///< indices of tokens: [first, own) end at this node, [first, last) are in its subtree
    std::bitset<256> bytes_below{};  ///< bytes that occur in the subtree below
    uint32_t height = 0;             ///< length of the longest path below, in bytes
  };

  /// Throws core::Error if a token has more than 4,096 bytes.
  explicit TokenTree(const data::Tokenizer& tokenizer);

  [[nodiscard]] std::span<const Node> nodes() const { return nodes_; }
  [[nodiscard]] std::span<const int32_t> tokens() const { return tokens_; }  ///< IDs in the order of the tokens' bytes
  [[nodiscard]] const std::bitset<256>& bytes() const { return bytes_; }     ///< all bytes that occur in tokens
  [[nodiscard]] size_t longest() const { return longest_; }                  ///< length of the longest token in bytes

 private:
  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;
  std::bitset<256> bytes_;
  size_t longest_ = 0;
};

/// Thrown when the cached parser states (places) of a form exceed their memory limit. Form::forget() frees them.
class CapacityExceeded final : public core::Error {
 public:
  using core::Error::Error;
};

class Form {
 public:
  using Place = int32_t;
  static constexpr Place kDead = -1;
  /// Default memory limit for the places of one form, in bytes. A server caches 64 forms. 300 outputs of arbitrary JSON
  /// objects, with a vocabulary of 49,152 tokens, need only 0.3 MB.
  static constexpr size_t kMostBytes = size_t{8} << 20U;
  /// Half-open ranges [first, second) of indices in TokenTree::tokens().
  using Ranges = std::vector<std::pair<uint32_t, uint32_t>>;

  /// `grammar` must have been built with tokens->longest() as its longest_token, and finished with tokens->bytes().
  /// `most_steps` limits the work of one query, counted in nodes of the token tree and edges of the grammar.
  Form(Grammar grammar, std::shared_ptr<const TokenTree> tokens, size_t most_bytes = kMostBytes,
       uint64_t most_steps = core::kDefaultWork);
  Form(const Form&) = delete;
  Form& operator=(const Form&) = delete;

  [[nodiscard]] const TokenTree& tokens() const { return *tokens_; }

  // Queries throw CapacityExceeded if all places together would exceed `most_bytes`, and core::Error if the output has
  // too many parses or the query takes too many steps.
  [[nodiscard]] Place start() const { return start_; }
  /// Returns the place (parser state) after reading `byte`, or kDead if no valid output continues with `byte`.
  [[nodiscard]] Place after(Place place, uint8_t byte);
  [[nodiscard]] Place after(Place place, std::string_view bytes);
  [[nodiscard]] bool may_end(Place place) const { return places_[static_cast<size_t>(place)].may_end; }
  /// Returns the next byte if only one is possible and the output can't end here, otherwise nullopt.
  [[nodiscard]] std::optional<uint8_t> forced(Place place);
  /// Returns the tokens that may come next, as ranges in ascending order. The reference is valid until the next call of
  /// a non-const function.
  [[nodiscard]] const Ranges& allowed(Place place);

  /// Frees all places except the start and `kept`. Returns the new id of `kept`; ids from before the call are invalid.
  Place forget(Place kept);
  /// Returns the number of calls of forget() so far. A Place is valid only as long as this number doesn't change.
  [[nodiscard]] uint64_t generation() const { return generation_; }
  [[nodiscard]] size_t n_places() const { return places_.size(); }
  [[nodiscard]] size_t n_bytes() const { return n_bytes_; }  ///< memory used by all places

 private:
  struct Way {
    Grammar::State state;
    int32_t stack;  ///< index in stacks_ of the top return state, or -1 if there is none
    auto operator<=>(const Way&) const = default;
  };
  struct StackNode {
    Grammar::State back;
    int32_t below;
    auto operator<=>(const StackNode&) const = default;
  };
  struct Step {
    uint8_t low, high;
    Place to;
  };
  struct PlaceData {
    std::vector<Way> ways{};
    bool may_end = false;
    bool is_expanded = false;
    std::vector<Step> steps{};  ///< transitions, sorted by byte
    std::bitset<256> bytes{};   ///< all bytes that may come next
    std::bitset<256> run{};     ///< bytes that may come next in any order, up to run_length of them
    uint32_t run_length = 0;    ///< length up to which every sequence of bytes in `run` is allowed
    bool has_run = false;
    bool is_whole_run = false;  ///< true if run_length is exact, false if it is a lower bound
    Place same = kDead;         ///< place whose member `allowed` also applies to this one; kDead: not determined yet
    std::optional<Ranges> allowed{};
  };
  struct Key {
    std::span<const Way> ways;
    bool may_end;
  };
  /// Hash and equality of places by their parses and may_end; also accepts a Key for lookup without inserting a place.
  struct SamePlace {
    using is_transparent = void;
    const Form* form;
    size_t operator()(Place place) const { return (*this)(key(place)); }
    size_t operator()(const Key& key) const;
    bool operator()(Place a, Place b) const { return a == b; }
    bool operator()(const Key& a, Place b) const;
    bool operator()(Place a, const Key& b) const { return (*this)(b, a); }
    [[nodiscard]] Key key(Place place) const;
  };

  [[nodiscard]] int32_t push(Grammar::State back, int32_t below);
  [[nodiscard]] int32_t alike_stack(int32_t stack);
  [[nodiscard]] Place place_of(std::vector<Way> todo);
  /// Returns the place with the parses `ways`; adds it if it is new. Sorts `ways` and removes duplicates.
  [[nodiscard]] Place intern(std::vector<Way>& ways, bool may_end);
  [[nodiscard]] std::vector<Way> read(std::span<const Way> ways, uint8_t byte) const;
  void take(size_t n_bytes);
  void spend(size_t n_steps);
  void expand(Place place);
  [[nodiscard]] bool runs(Place place, const std::bitset<256>& bytes, uint32_t length);
  [[nodiscard]] std::bitset<256> run_of(Place place);
  void walk(size_t first, size_t end, Place place, Ranges& to);

  Grammar grammar_;
  std::shared_ptr<const TokenTree> tokens_;
  std::vector<StackNode> stacks_;
  std::vector<int32_t> alike_stacks_;  ///< per stack: the stack with each state s replaced by alike(s); -2: unknown
  std::unordered_map<uint64_t, int32_t> stack_numbers_;
  std::vector<PlaceData> places_;
  std::unordered_set<Place, SamePlace, SamePlace> place_numbers_;
  std::vector<Way> ways_;  ///< result buffer of place_of()
  KeySet seen_;            ///< pairs (state, stack) visited by place_of()
  size_t most_bytes_;
  size_t n_bytes_ = 0;
  uint64_t most_steps_;
  uint64_t n_steps_ = 0;  ///< steps used by the current query
  uint64_t generation_ = 0;
  Place start_;
};

}  // namespace folio::infer::forms
