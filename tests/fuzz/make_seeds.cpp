// Makes the kept seeds anew: make_seeds FOLDER writes FOLDER/pool_image, FOLDER/operations, FOLDER/dump and
// FOLDER/packed_records. To be run when the format changes; pool ids and the like come out differently each time.
#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <random>

#include "icecore/icecore.hpp"
#include "pool/format.hpp"
#include "stratum/extent_builder.hpp"
#include "stratum/frames/frame_writer.hpp"
#include "support/image.hpp"
#include "support/reading.hpp"
#include "support/script.hpp"
#include "support/simulated_pool.hpp"
#include "support/sound_store.hpp"

namespace {

using namespace icecore;
using namespace icecore::testing;

namespace fs = std::filesystem;

[[nodiscard]] options writing() {
  options opening;
  opening.huge_pages = false;
  return opening;
}

struct sample {
  const char* name;
  std::function<void(store&)> fill;
  options opening = writing();
};

void insert_numbers(store& s, int count) {
  for (int i = 0; i < count; ++i) s.insert("key-" + std::to_string(i), std::to_string(i * i));
}

void fill_batches(store& s) {
  insert_numbers(s, 3);
  for (int round = 0; round < 3; ++round) {
    batch together;
    together.insert("key-1", "of batch " + std::to_string(round));
    together.insert("new-" + std::to_string(round), "");
    together.remove("key-2");
    together.remove("never there");
    s.apply(together);
    s.tag();
  }
}

void fill_tags(store& s) {
  s.insert("a", "1");
  s.tag({.name = "first", .note = "a note", .time_ns = 1000});
  s.tag({.name = "second", .time_ns = -5});
  s.tag({.note = "without a name", .time_ns = 1000});
  s.tag();
  s.remove("a");
  s.tag({.name = std::string("\0\xff", 2), .time_ns = 0});
}

void fill_deep(store& s) {
  for (int i = 0; i < 80; ++i) {
    if (i % 16 == 15) {
      s.remove("deep");
    } else {
      s.insert("deep", std::to_string(i));
    }
    s.tag();
  }
}

void fill_large(store& s) {
  s.insert("large", std::string(5000, 'L'));
  s.insert("larger", std::string(70'000, 'M'));  // a segment of its own
  s.insert("large", std::string(4096, 'N'));
  s.tag({.note = std::string(4200, 'n'), .time_ns = 7});
}

void fill_keys(store& s) {
  for (const std::string& key : script_keys()) {
    if (key.size() <= 300) s.insert(key, key.substr(0, 20));
  }
}

[[nodiscard]] std::vector<sample> samples() {
  std::vector<sample> all = {{"empty", [](store&) {}},
                             {"one", [](store& s) { s.insert("a", "1"); }},
                             {"numbers", [](store& s) { insert_numbers(s, 12); }},
                             {"batches", fill_batches},
                             {"tags", fill_tags},
                             {"deep", fill_deep},
                             {"large", fill_large},
                             {"keys", fill_keys}};
  options other = writing();
  other.index = index_kind::skip_list;
  all.push_back({"skip_list", [](store& s) { insert_numbers(s, 5); }, other});
  other.index = index_kind::persistent;
  all.push_back({"persistent", [](store& s) { insert_numbers(s, 60); }, other});  // more than a node holds
  options durable = writing();
  durable.durability = durability::operation;
  durable.emulate_durability = true;
  all.push_back({"operation", [](store& s) { insert_numbers(s, 4); }, durable});
  durable.durability = durability::tag;
  all.push_back({"tag", fill_tags, durable});
  return all;
}

void write_file(const fs::path& path, std::string_view bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

/// An open file has room behind what it holds. Without it the roots must tell of less; they are resealed later.
void cut_roots(std::vector<std::byte>& file) {
  for (const std::uint64_t offset : {icecore::format::root_a_offset, icecore::format::root_b_offset}) {
    auto& root = *reinterpret_cast<icecore::format::root*>(file.data() + offset);
    if (root.magic == icecore::format::magic) root.file_size = file.size();
  }
}

/// The file as it is, as many bytes of it as hold something.
void write_image(const fs::path& path, const simulated_pool& pool, std::uint8_t flags) {
  const std::string_view content = pool.text();
  image described{flags, {}};
  const auto bytes = std::as_bytes(std::span(content));
  const std::size_t last = content.find_last_not_of('\0');
  const std::size_t size = std::max<std::size_t>(128 << 10, (last + 65'536) / 65'536 * 65'536);
  described.file.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(std::min(size, bytes.size())));
  if (flags != 0) cut_roots(described.file);
  const auto description = describe(described);
  write_file(path, {reinterpret_cast<const char*>(description.data()), description.size()});
}

void make_images_and_dumps(const fs::path& folder) {
  const simulated_pool pool(0);
  for (const sample& one : samples()) {
    const auto path = folder / "pool_image" / one.name;
    pool.write(std::string_view());
    {
      store s(pool.path(), one.opening);
      one.fill(s);
      write_image(path.string() + "-open", pool, image_flag::resealed | image_flag::this_boot | image_flag::this_file);
      write_image(path.string() + "-cut", pool, image_flag::resealed | image_flag::accept_copy);
      write_file(folder / "dump" / one.name, dump_of(s));
      s.close();
    }
    write_image(path.string() + "-closed", pool, 0);
    store s(pool.path(), one.opening);  // fills and a certificate, and then more
    s.insert("a", "later");
    s.tag();
    write_image(path.string() + "-again", pool, image_flag::resealed | image_flag::this_boot | image_flag::this_file);
  }
}

void make_dumps_by_hand(const fs::path& folder) {
  write_file(folder / "parts",
             "{\"icecore_dump\":1,\"clock\":2,\"records\":1,\"tags\":0}\n"
             "{\"version\":1,\"key\":\"parts\",\"size\":6}\n{\"part\":\"abc\"}\n{\"part\":{\"base64\":\"3q2+\"}}\n"
             "{\"end\":true,\"records\":1,\"tags\":0,\"crc32\":\"00000000\"}\n");
  write_file(folder / "escapes",
             "{\"icecore_dump\":1,\"clock\":1,\"records\":1,\"tags\":0,\"written_by\":\"by hand\"}\n"
             "{\"version\":1,\"key\":\"\\u00e9\\ud83d\\ude00\\n\\\"\\\\\",\"value\":\"\\t\\/\"}\n"
             "{\"end\":true,\"records\":1,\"tags\":0,\"crc32\":\"00000000\"}\n");
}

void make_operations(const fs::path& folder) {
  std::minstd_rand random(1);
  for (unsigned n = 0; n < 16; ++n) {
    std::string bytes(1, static_cast<char>(n % 4 + (n % 3 == 0 ? 0x40 : 0)));
    for (unsigned i = 0; i < 8 + 2 * n; ++i) {
      // every other step writes; few keys, so that they gather a past
      const auto what = random() % 2 != 0 ? random() % 5 : random() % kinds_of_step;
      bytes += static_cast<char>(what);
      bytes += static_cast<char>(random() % (4 + 2 * n));
      for (int more = 0; more < 4; ++more) bytes += static_cast<char>(random());
    }
    write_file(folder / ("script-" + std::to_string(n)), bytes);
  }
  for (unsigned what = 0; what < kinds_of_step; ++what) {  // one of each, after something to look at
    std::string bytes("\0\0\1\0\4\7\0\3\0\0\0\0\0\0\2\0\5\1\0", 19);
    for (int twice = 0; twice < 2; ++twice) bytes += {static_cast<char>(what), 1, 3, 5, 1, 0};
    write_file(folder / ("step-" + std::to_string(what)), bytes);
  }
}

/// An extent of `keys` keys, with so many records of each, the second one a removal; also compressed.
void make_extent(const fs::path& folder, const std::string& name, int keys, int records, std::size_t value_bytes) {
  constexpr std::uint32_t seed = 77;
  constexpr std::uint64_t block_bytes = 200;
  std::vector<std::byte> memory(std::size_t{1} << 20);
  const std::size_t to_alignment = (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
  const std::span<std::byte> room = std::span(memory).subspan(to_alignment);
  stratum::extent_builder made(room, seed, block_bytes);
  for (int k = 0; k < keys; ++k) {
    for (int r = records; r > 0; --r) {
      const bool is_removal = r == records - 1;
      const std::string value(is_removal ? 0 : value_bytes, static_cast<char>('a' + r % 20));
      const auto kind = is_removal ? format::packed_kind::removal : format::packed_kind::value;
      if (!made.add("key-" + std::to_string(k), {static_cast<version>(r), kind, value})) throw std::bad_alloc();
    }
  }
  const std::span<const std::byte> extent = room.first(made.finish());
  std::vector<std::byte> frames;
  stratum::frame_writer(3).write(extent, seed, frames);
  const auto write = [&](const std::string& file, char is_sealed, std::span<const std::byte> media) {
    std::string bytes(1, is_sealed);
    bytes.append(reinterpret_cast<const char*>(media.data()), media.size());
    write_file(folder / file, bytes);
  };
  write(name, 1, extent);
  write(name + "-compressed", 1, frames);
  write(name + "-whole", 0, extent);
}

void make_extents(const fs::path& folder) {
  make_extent(folder, "one", 1, 1, 3);
  make_extent(folder, "words", 9, 1, 8);
  make_extent(folder, "removals", 6, 3, 8);
  make_extent(folder, "deep", 2, 30, 8);
  make_extent(folder, "long", 2, 2, 300);
  make_extent(folder, "empty", 5, 2, 0);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: make_seeds FOLDER\n");
    return 2;
  }
  const fs::path folder = arguments[1];
  make_images_and_dumps(folder);
  make_dumps_by_hand(folder / "dump");
  make_operations(folder / "operations");
  make_extents(folder / "packed_records");
  return 0;
}
