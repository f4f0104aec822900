#include "graph.hpp"

#include "batches.hpp"
#include "extensions.hpp"

namespace kmers {

node graph::node_of(kmer canonical, std::string_view code) noexcept {
  return {canonical, *base_of(code[0]), *base_of(code[1])};
}

node graph::flipped(const node& n) const noexcept {
  return {coder_.reverse_complement(n.x), complement(n.right), complement(n.left)};
}

std::optional<node> graph::linked(const node& from, kmer candidate, const std::optional<std::string>& code) const {
  if (!code || !is_unique(*code)) return std::nullopt;
  const kmer canonical = coder_.canonical(candidate);
  node to = node_of(canonical, *code);
  if (candidate != canonical) to = flipped(to);
  if (to.left != coder_.first(from.x)) return std::nullopt;
  // a hairpin: the same k-mer on the other strand; going on would read the chain backwards
  if (to.x == coder_.reverse_complement(from.x)) return std::nullopt;
  return to;
}

std::vector<std::optional<node>> graph::behind(std::span<const node> nodes) const {
  std::vector<kmer> candidates;
  std::vector<std::string> keys;
  for (const node& n : nodes) {
    candidates.push_back(coder_.shifted(n.x, n.right));
    keys.push_back(coder_.key(kind_, coder_.canonical(candidates.back())));
  }
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  const auto codes = codes_.find_many(views);
  std::vector<std::optional<node>> next;
  for (std::size_t i = 0; i < nodes.size(); ++i) next.push_back(linked(nodes[i], candidates[i], codes[i]));
  return next;
}

void graph::walk(std::deque<node> starts, const std::function<bool(const node& start, const node& next)>& give_up,
                 const std::function<void(path)>& found) const {
  std::vector<path> walks;
  while (!starts.empty() || !walks.empty()) {
    for (; !starts.empty() && walks.size() < batch_items; starts.pop_front()) {
      walks.push_back({starts.front(), starts.front(), coder_.text(starts.front().x)});
    }
    std::vector<node> places;
    for (const path& w : walks) places.push_back(w.end);
    const auto next = behind(places);
    std::vector<path> going_on;
    for (std::size_t i = 0; i < walks.size(); ++i) {
      path& w = walks[i];
      if (!next[i] || next[i]->x == w.begin.x) {
        found(std::move(w));
      } else if (!give_up(w.begin, *next[i])) {
        w.end = *next[i];
        w.bases += letter_of(coder::last(w.end.x));
        going_on.push_back(std::move(w));
      }
    }
    walks = std::move(going_on);
  }
}

}  // namespace kmers
