// A lock-free ordered list of nodes with up to `levels_max` levels: with one, the list of T. Harris, A Pragmatic
// Implementation of Non-blocking Linked-Lists (DISC 2001); with more, a skip list over it, whose upper levels are
// shortcuts. What its nodes keep besides the key, and what happens as an insert or a remove takes effect, is its
// memory's.
//
// Memory is a class with
//   payload, make(key, value)    what a node holds
//   complete(payload)            finishes an insert (any thread may), before anybody acts on the node
//   removed(payload, ours)       finishes a remove, likewise; `ours` in the call of who removed it
// and Steps::point(word, writes) is called before each access to a shared word: tests change threads there.
//
// Invariants:
//   C1 a node is in the map from the swap that links it at level 0 until the swap that marks its next link there;
//   C2 who meets a node completes its insert, and who meets a marked one its remove, before acting on either.
//
// Threads: any number. Nodes live as long as the chain's arena.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <string_view>
#include <vector>

namespace icecore::bench::pdt {

/// No steps: what programs are compiled with.
struct no_steps {
  static void point(const volatile void*, bool) noexcept {}
};

/// Memory that is given back as a whole.
class arena {
 public:
  arena() = default;
  ~arena() {
    for (char* const block : blocks_) ::operator delete(block, std::align_val_t{64});
  }
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  /// `size` is a multiple of 8.
  void* allocate(std::size_t size) {
    thread_local struct {
      std::uint64_t of = 0;
      char* next = nullptr;
      char* end = nullptr;
    } own;
    if (own.of != number_ || static_cast<std::size_t>(own.end - own.next) < size) {
      const std::size_t bytes = std::max(block_size, size);
      own.next = static_cast<char*>(::operator new(bytes, std::align_val_t{64}));
      own.end = own.next + bytes;
      own.of = number_;
      const std::scoped_lock lock(adding_);
      blocks_.push_back(own.next);
    }
    void* const given = own.next;
    own.next += size;
    return given;
  }

 private:
  static constexpr std::size_t block_size = std::size_t{256} << 10;
  inline static std::atomic<std::uint64_t> count_{0};
  std::uint64_t number_ = ++count_;
  std::mutex adding_;
  std::vector<char*> blocks_;
};

template <class Memory, unsigned levels_max, class Steps = no_steps>
class chain {
 public:
  using payload = typename Memory::payload;

  struct node {
    std::uint64_t key;
    payload holds;
    std::atomic<std::uint8_t> completed;  // the insert: C2
    std::uint8_t levels;
    std::atomic<std::uint64_t>* next() noexcept { return reinterpret_cast<std::atomic<std::uint64_t>*>(this + 1); }
  };

  chain(Memory& memory, arena& nodes) : memory_(&memory), nodes_(&nodes) {}

  /// Whether the key was not there.
  bool insert(std::uint64_t key, std::string_view value) {
    places p{};
    node* made = nullptr;
    for (;;) {
      if (node* const found = find(key, p)) {
        complete(*found);
        return false;
      }
      if (made == nullptr) made = &make(key, memory_->make(key, value), random_levels());
      for (unsigned l = 0; l < std::min<unsigned>(made->levels, levels_max); ++l) {
        made->next()[l].store(word_of(p.after[l]), std::memory_order_relaxed);  // published by the swap below
      }
      if (swap(*p.link[0], word_of(p.after[0]), word_of(made))) break;  // C1
    }
    complete(*made);
    link_above(*made, p);
    return true;
  }

  /// Whether the key was there.
  bool remove(std::uint64_t key) {
    places p{};
    node* const found = find(key, p);
    if (found == nullptr) return false;
    complete(*found);
    for (unsigned l = found->levels; l-- > 1;) mark(found->next()[l]);
    const bool ours = mark(found->next()[0]);  // C1
    memory_->removed(found->holds, ours);      // C2: before anybody may see that it is gone
    find(key, p);                              // unlinks it
    return ours;
  }

  /// The node of the key; completed.
  node* get(std::uint64_t key) {
    places p{};
    node* const found = find(key, p);
    if (found != nullptr) complete(*found);
    return found;
  }

  /// Calls visit(node) for the nodes whose keys are at least `from`, in order, until it returns false.
  template <typename Visit>
  bool walk(std::uint64_t from, const Visit& visit) {
    places p{};
    find(from, p);
    for (node* at = p.after[0]; at != nullptr;) {
      const std::uint64_t next = load(at->next()[0]);
      if (is_marked(next)) {
        memory_->removed(at->holds, false);
      } else {
        complete(*at);
        if (!visit(*at)) return false;
      }
      at = node_of(next);
    }
    return true;
  }

  /// Appends a node behind all others: for recovery, by one thread, in key order.
  void append(std::uint64_t key, payload holds) {
    node& n = make(key, holds, random_levels());
    n.completed.store(1, std::memory_order_relaxed);
    for (unsigned l = 0; l < std::min<unsigned>(n.levels, levels_max); ++l) {
      n.next()[l].store(0, std::memory_order_relaxed);
      (last_[l] == nullptr ? head_[l] : last_[l]->next()[l]).store(word_of(&n), std::memory_order_release);
      last_[l] = &n;
    }
  }

 private:
  struct places {
    std::array<std::atomic<std::uint64_t>*, levels_max> link;  // the link that leads to `after`
    std::array<node*, levels_max> after;                       // the first node that is not before the key
  };

  // A link is a node's address, and 1 if the node that it is in was removed.
  static std::uint64_t word_of(const node* n) noexcept { return reinterpret_cast<std::uint64_t>(n); }
  static bool is_marked(std::uint64_t word) noexcept { return (word & 1U) != 0; }
  static node* node_of(std::uint64_t word) noexcept {
    return reinterpret_cast<node*>(word & ~std::uint64_t{1});  // NOLINT(performance-no-int-to-ptr): a tagged pointer
  }
  static std::uint64_t load(const std::atomic<std::uint64_t>& word) {
    Steps::point(&word, false);
    return word.load(std::memory_order_acquire);  // its node is complete in memory
  }
  static bool swap(std::atomic<std::uint64_t>& word, std::uint64_t from, std::uint64_t to) {
    Steps::point(&word, true);
    return word.compare_exchange_strong(from, to, std::memory_order_acq_rel);
  }
  /// Whether this call marked it.
  static bool mark(std::atomic<std::uint64_t>& word) {
    for (std::uint64_t seen = load(word); !is_marked(seen); seen = load(word)) {
      if (swap(word, seen, seen | 1U)) return true;
    }
    return false;
  }

  void complete(node& n) {
    Steps::point(&n.completed, false);
    if (n.completed.load(std::memory_order_acquire) != 0) return;  // what its completion wrote is seen
    memory_->complete(n.holds);
    Steps::point(&n.completed, true);
    n.completed.store(1, std::memory_order_release);
  }

  /// The key's node, or null; the places where it is or would be. Unlinks removed nodes on the way.
  node* find(std::uint64_t key, places& p) {
  again:
    std::atomic<std::uint64_t>* from = nullptr;  // the links of the node that we are at
    for (unsigned l = levels_max; l-- > 0;) {
      std::atomic<std::uint64_t>* link = from == nullptr ? &head_[l] : from + l;
      node* at = node_of(load(*link));
      while (at != nullptr) {
        const std::uint64_t next = load(at->next()[l]);
        if (is_marked(next)) {
          if (l == 0) memory_->removed(at->holds, false);  // C2
          if (!swap(*link, word_of(at), next & ~std::uint64_t{1})) goto again;
          at = node_of(next);
          continue;
        }
        if (at->key >= key) break;
        if (l == 0) complete(*at);  // C2: who walks by helps
        from = at->next();
        link = from + l;
        at = node_of(next);
      }
      p.link[l] = link;
      p.after[l] = at;
    }
    return p.after[0] != nullptr && p.after[0]->key == key ? p.after[0] : nullptr;
  }

  void link_above(node& made, places& p) {
    if constexpr (levels_max == 1) return;
    for (unsigned l = 1; l < std::min<unsigned>(made.levels, levels_max); ++l) {
      for (;;) {
        std::uint64_t own = load(made.next()[l]);
        if (is_marked(own)) return;  // it was removed meanwhile
        if (node_of(own) != p.after[l] && !swap(made.next()[l], own, word_of(p.after[l]))) continue;
        if (swap(*p.link[l], word_of(p.after[l]), word_of(&made))) break;
        if (find(made.key, p) != &made) return;
      }
    }
  }

  node& make(std::uint64_t key, payload holds, unsigned levels) {
    const std::size_t size = sizeof(node) + levels * sizeof(std::atomic<std::uint64_t>);
    node* const n = new (nodes_->allocate(size)) node{key, holds, {}, static_cast<std::uint8_t>(levels)};
    for (unsigned l = 0; l < levels; ++l) new (n->next() + l) std::atomic<std::uint64_t>(0);
    return *n;
  }

  /// 1, and with probability 1/4 one more, and so on.
  static unsigned random_levels() {
    if constexpr (levels_max == 1) return 1;
    thread_local std::uint64_t state = 0x9e3779b97f4a7c15U ^ reinterpret_cast<std::uint64_t>(&state);
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    unsigned levels = 1;
    for (std::uint64_t bits = state; levels < levels_max && (bits & 3U) == 0; bits >>= 2) ++levels;
    return levels;
  }

  Memory* memory_;
  arena* nodes_;
  std::array<std::atomic<std::uint64_t>, levels_max> head_{};
  std::array<node*, levels_max> last_{};
};

}  // namespace icecore::bench::pdt
