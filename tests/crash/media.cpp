#include "media.hpp"

#include <algorithm>
#include <cstring>

namespace icecore::crash {

media::media(unit granularity, const left_files& files)
    : shift_(static_cast<unsigned>(granularity)), lines_(granularity == unit::line) {
  for (unsigned n = 0; n < files_max; ++n) {
    const left_file& f = files[n];
    if (!f.there) continue;
    files_[n] = {true, true, f.bytes.size(), {{0, f.bytes.size()}}};
    reach(n * file_apart + f.bytes.size());
    std::ranges::copy(f.bytes, guaranteed_.begin() + static_cast<std::ptrdiff_t>(n * file_apart));
  }
  working_ = guaranteed_;
}

/// The guaranteed bytes cover all sizes the files may have: what no store reached is zero.
void media::reach(std::uint64_t end) {
  if (end == 0) return;
  if (guaranteed_.size() < end) guaranteed_.resize(end);
  if (working_.size() < end) working_.resize(end);
  const std::uint64_t units = ((end - 1) >> shift_) + 1;
  if (pending_.size() < units) pending_.resize(units);
}

void media::resize(unsigned number, std::uint64_t size) {
  file& f = files_[number];
  const std::uint64_t begin = number * file_apart;
  reach(begin + size);
  if (size < f.size) std::memset(working_.data() + begin + size, 0, f.size - size);
  f.there = true;
  f.size = size;
  f.sizes.push_back({time_, size});
}

left_files media::working() const noexcept {
  left_files left;
  for (unsigned n = 0; n < files_max; ++n) {
    if (files_[n].there) left[n] = {true, std::span(working_).subspan(n * file_apart, files_[n].size)};
  }
  return left;
}

void media::apply(const event& e) {
  ++time_;
  switch (e.what) {
    case event::kind::store: {
      std::memcpy(working_.data() + e.offset, &e.value, e.size);
      const auto number = static_cast<std::uint32_t>(e.offset >> shift_);
      if (pending_[number].empty()) dirty_.push_back(number);
      pending_[number].push_back({time_, e.value, static_cast<std::uint32_t>(e.offset), e.size});
      break;
    }
    case event::kind::flush:
      if (!lines_) break;
      for (std::uint64_t at = e.offset >> shift_; e.value != 0 && at <= (e.offset + e.value - 1) >> shift_; ++at) {
        if (at < pending_.size() && !pending_[at].empty()) {
          flushed_[e.writer].push_back({static_cast<std::uint32_t>(at), time_});
        }
      }
      break;
    case event::kind::fence:
      for (const flushed& f : flushed_[e.writer]) guarantee(f.number, f.time);
      flushed_[e.writer].clear();
      break;
    case event::kind::sync_begin:
      sync_began_[e.writer] = time_;
      break;
    case event::kind::sync_end:
      guarantee_file(static_cast<unsigned>(e.offset / file_apart), sync_began_[e.writer]);
      break;
    case event::kind::resize:
      resize(static_cast<unsigned>(e.offset / file_apart), e.value);
      break;
    case event::kind::directory_sync:
      for (file& f : files_) f.named = f.there;
      break;
    case event::kind::begin:
    case event::kind::end:
      break;
  }
}

void media::guarantee(std::uint32_t number, std::uint64_t before) {
  auto& stores = pending_[number];
  const auto kept = std::ranges::find_if(stores, [before](const store& s) { return s.time > before; });
  for (auto s = stores.begin(); s != kept; ++s) std::memcpy(guaranteed_.data() + s->offset, &s->value, s->size);
  stores.erase(stores.begin(), kept);
  if (stores.empty()) std::erase(dirty_, number);
}

void media::guarantee_file(unsigned number, std::uint64_t before) {
  const auto dirty = dirty_;
  for (const std::uint32_t of : dirty) {
    if ((std::uint64_t{of} << shift_) / file_apart == number) guarantee(of, before);
  }
  auto& sizes = files_[number].sizes;
  while (sizes.size() > 1 && sizes[1].time <= before) sizes.erase(sizes.begin());
}

choices::choices(const media& of) : of_(of), sizes_(all_sizes(of)) {
  const auto times = [this](std::uint64_t n) { count_ = count_ > (std::uint64_t{1} << 40) ? count_ : count_ * n; };
  std::vector<std::byte> content(std::size_t{1} << of.shift_);
  for (const std::uint32_t number : of.dirty_) {
    const std::uint64_t begin = std::uint64_t{number} << of.shift_;
    media::open_unit u{number, {0}};
    const std::uint64_t size = std::min<std::uint64_t>(content.size(), of.guaranteed_.size() - begin);
    std::memcpy(content.data(), of.guaranteed_.data() + begin, size);
    std::uint32_t count = 0;
    for (const auto& s : of.pending_[number]) {
      ++count;
      std::byte* at = content.data() + (s.offset - begin);
      if (std::memcmp(at, &s.value, s.size) == 0) continue;
      std::memcpy(at, &s.value, s.size);
      u.prefixes.push_back(count);
    }
    if (u.prefixes.size() == 1) continue;
    times(u.prefixes.size());
    units_.push_back(std::move(u));
  }
  times(sizes_.size());
}

std::vector<choices::sizes> choices::all_sizes(const media& of) {
  std::vector<sizes> all(1);
  for (unsigned n = 0; n < files_max; ++n) {
    const media::file& f = of.files_[n];
    std::vector<sizes> with_this;
    for (sizes s : all) {
      for (s[n] = 0; s[n] < f.sizes.size(); ++s[n]) with_this.push_back(s);
      s[n] = missing;
      if (!f.named) with_this.push_back(s);
    }
    all = std::move(with_this);
  }
  return all;
}

/// The files as one choice leaves them; undone before the next.
struct choices::made {
  const media& of;
  const std::vector<media::open_unit>& units;
  image bytes;

  made(const media& m, const std::vector<media::open_unit>& u) : of(m), units(u), bytes(m.guaranteed_) {}

  void set(std::size_t i, std::uint32_t prefix) {
    const std::uint64_t begin = std::uint64_t{units[i].number} << of.shift_;
    const std::uint64_t size = std::min<std::uint64_t>(std::uint64_t{1} << of.shift_, bytes.size() - begin);
    std::memcpy(bytes.data() + begin, of.guaranteed_.data() + begin, size);
    const auto& stores = of.pending_[units[i].number];
    for (std::uint32_t k = 0; k < prefix; ++k) {
      std::memcpy(bytes.data() + stores[k].offset, &stores[k].value, stores[k].size);
    }
  }
  void show(const sizes& chosen, const visitor& visit) const {
    left_files left;
    for (unsigned n = 0; n < files_max; ++n) {
      if (chosen[n] == missing) continue;
      left[n] = {true, std::span(bytes).subspan(n * file_apart, of.files_[n].sizes[chosen[n]].size)};
    }
    visit(left);
  }
};

void choices::for_each(std::uint64_t most, std::mt19937_64& random, const visitor& visit) const {
  made m(of_, units_);
  if (count_ <= most) {
    std::vector<std::size_t> at(units_.size(), 0);
    for (;;) {
      for (const sizes& s : sizes_) m.show(s, visit);
      std::size_t i = 0;
      while (i < units_.size() && ++at[i] == units_[i].prefixes.size()) {
        at[i] = 0;
        m.set(i, 0);
        ++i;
      }
      if (i == units_.size()) return;
      m.set(i, units_[i].prefixes[at[i]]);
    }
  }
  std::uint64_t shown = 0;
  const auto show = [&] {
    m.show(sizes_.size() == 1 ? sizes_.front() : sizes_[random() % sizes_.size()], visit);
    ++shown;
  };
  const auto set_all = [&](bool arrived) {
    for (std::size_t i = 0; i < units_.size(); ++i) m.set(i, arrived ? units_[i].prefixes.back() : 0);
  };
  for (const bool arrived : {false, true}) {
    set_all(arrived);
    show();
    // each alone, and all but one: of those that are too many, some
    const std::size_t alone = std::min<std::size_t>(units_.size(), most / 4);
    for (std::size_t k = 0; k < alone; ++k) {
      const std::size_t i = alone == units_.size() ? k : random() % units_.size();
      const auto& prefixes = units_[i].prefixes;
      m.set(i, arrived ? prefixes[random() % (prefixes.size() - 1)] : prefixes[1 + random() % (prefixes.size() - 1)]);
      show();
      m.set(i, arrived ? prefixes.back() : 0);
    }
  }
  while (shown < most) {
    // of every eight units so many at their first, so many at their last state, the rest anywhere
    const std::uint64_t first = random() % 9;
    const std::uint64_t last = random() % 9;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const auto& prefixes = units_[i].prefixes;
      const std::uint64_t draw = random() % 16;
      m.set(i, draw < first ? 0 : draw < first + last ? prefixes.back() : prefixes[random() % prefixes.size()]);
    }
    show();
  }
}

}  // namespace icecore::crash
