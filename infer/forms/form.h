// What may come next in a text of a grammar: which bytes, which tokens, and whether it may end. A place is the set of
// all ways in which the text so far may be read: states of the grammar, each with the rules that it returns to. Places
// are found as they are needed and numbered, so a text that comes to one again pays nothing. They have a limit
// together; where it is reached they can be forgotten. Not for several threads at once.
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

/// The tokens of a vocabulary in the order of their bytes, as a tree. Tokens without bytes, which are no text, are not
/// in it.
class TokenTree {
 public:
  struct Node {
    uint8_t byte;               ///< the last one of what leads here
    uint32_t next;              ///< the node behind this one's subtree; its first child is the node behind it
    uint32_t first, own, last;  ///< ranks of tokens: [first, own) end here, [first, last) begin with what leads here
    std::bitset<256> bytes_below{};  ///< that are in the subtree
    uint32_t height = 0;             ///< bytes of the longest way down from here
  };

  explicit TokenTree(const data::Tokenizer& tokenizer);

  [[nodiscard]] std::span<const Node> nodes() const { return nodes_; }
  [[nodiscard]] std::span<const int32_t> tokens() const { return tokens_; }  ///< by rank
  [[nodiscard]] const std::bitset<256>& bytes() const { return bytes_; }     ///< that some token has
  [[nodiscard]] size_t longest() const { return longest_; }                  ///< bytes of a token

 private:
  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;
  std::bitset<256> bytes_;
  size_t longest_ = 0;
};

/// The places of a form have no room: forget() some.
class NoRoom final : public core::Error {
 public:
  using core::Error::Error;
};

class Form {
 public:
  using Place = int32_t;
  static constexpr Place kNowhere = -1;
  /// What the places of a form may take, in bytes. 300 texts of any JSON objects take 0.3 MB on a vocabulary of 49,152
  /// tokens; a server keeps 64 forms.
  static constexpr size_t kMostBytes = size_t{8} << 20U;
  /// Ranks of tokens: [first, second) of each.
  using Ranges = std::vector<std::pair<uint32_t, uint32_t>>;

  /// `grammar` is finished, for this vocabulary's bytes and its longest token. `most_steps`: of finding the tokens that
  /// may come at one place; nodes of the tree of tokens, and edges of the grammar that are followed.
  Form(Grammar grammar, std::shared_ptr<const TokenTree> tokens, size_t most_bytes = kMostBytes,
       uint64_t most_steps = core::kDefaultWork);
  Form(const Form&) = delete;
  Form& operator=(const Form&) = delete;

  [[nodiscard]] const TokenTree& tokens() const { return *tokens_; }

  // What is asked of a place throws NoRoom if all places together would take more than `most_bytes`, and core::Error if
  // a text can be read in too many ways or it takes too many steps.
  [[nodiscard]] Place start() const { return start_; }
  /// kNowhere: no text of the form goes on so.
  [[nodiscard]] Place after(Place place, uint8_t byte);
  [[nodiscard]] Place after(Place place, std::string_view bytes);
  [[nodiscard]] bool may_end(Place place) const { return places_[static_cast<size_t>(place)].may_end; }
  /// The one byte that may come, where the text can't end.
  [[nodiscard]] std::optional<uint8_t> forced(Place place);
  /// Tokens whose bytes may all come, in order of rank. Stays until the next call.
  [[nodiscard]] const Ranges& allowed(Place place);

  /// All places but the start are forgotten and their numbers worth nothing, but for that of `kept`, which is returned.
  Place forget(Place kept);
  /// Of the numbers of places: how often they were forgotten.
  [[nodiscard]] uint64_t generation() const { return generation_; }
  [[nodiscard]] size_t n_places() const { return places_.size(); }
  [[nodiscard]] size_t n_bytes() const { return n_bytes_; }  ///< that places take

 private:
  struct Way {
    Grammar::State state;
    int32_t stack;  ///< of the rules that it returns to, or -1
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
    std::vector<Step> steps{};  ///< in order of bytes
    std::bitset<256> bytes{};   ///< that they read
    std::bitset<256> run{};     ///< of these, some
    uint32_t run_length = 0;    ///< so many of which may come in any order
    bool knows_run = false;
    bool is_whole_run = false;  ///< of more nothing is known
    Place same = kNowhere;      ///< a place with the same tokens, which knows them; kNowhere: not known yet
    std::optional<Ranges> allowed{};
  };
  struct Key {
    std::span<const Way> ways;
    bool may_end;
  };
  /// Places are found by their keys.
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
  /// Sorts `ways`.
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
  std::vector<int32_t> alike_stacks_;  ///< -2: not known yet
  std::unordered_map<uint64_t, int32_t> stack_numbers_;
  std::vector<PlaceData> places_;
  std::unordered_set<Place, SamePlace, SamePlace> place_numbers_;
  std::vector<Way> ways_;  ///< that place_of() finds
  KeySet seen_;            ///< by place_of()
  size_t most_bytes_;
  size_t n_bytes_ = 0;
  uint64_t most_steps_;
  uint64_t n_steps_ = 0;  ///< of the question that is answered
  uint64_t generation_ = 0;
  Place start_;
};

}  // namespace folio::infer::forms
