// YCSB's workloads have the operations, records and scans that their definition says.
#include "ycsb/workload.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

#include "ycsb/records.hpp"

namespace icecore::bench::ycsb {
namespace {

constexpr std::uint64_t records = 10'000, operations = 100'000;

stream stream_of(const char* name, std::uint64_t seed = 1) {
  return operations_of(workload_of_name(name), {.records = records, .operations = operations, .seed = seed});
}

double share(const stream& of, operation_kind kind) {
  const auto count = std::ranges::count(of.operations, kind, &operation::kind);
  return static_cast<double>(count) / static_cast<double>(of.operations.size());
}

TEST(workloads, mix_operations_as_the_paper_says) {
  const std::map<std::string, std::map<operation_kind, double>> mixes = {
      {"A", {{operation_kind::read, 0.5}, {operation_kind::update, 0.5}}},
      {"B", {{operation_kind::read, 0.95}, {operation_kind::update, 0.05}}},
      {"C", {{operation_kind::read, 1}}},
      {"D", {{operation_kind::read, 0.95}, {operation_kind::insert, 0.05}}},
      {"E", {{operation_kind::scan, 0.95}, {operation_kind::insert, 0.05}}},
      {"F", {{operation_kind::read, 0.5}, {operation_kind::read_modify_write, 0.5}}},
      {"updates", {{operation_kind::update, 1}}},
  };
  ASSERT_EQ(mixes.size(), all_workloads().size());
  for (const auto& [name, shares] : mixes) {
    const stream made = stream_of(name.c_str());
    ASSERT_EQ(made.operations.size(), operations);
    for (const auto& [kind, wanted] : shares) EXPECT_NEAR(share(made, kind), wanted, 0.01) << name << name_of(kind);
    EXPECT_EQ(made.from_newest, name == "D");
  }
}

TEST(workloads, the_same_seed_makes_the_same_stream) {
  const auto records_of = [](const stream& of) {
    std::vector<std::uint32_t> all;
    for (const operation& one : of.operations) all.push_back(one.record);
    return all;
  };
  EXPECT_EQ(records_of(stream_of("E", 3)), records_of(stream_of("E", 3)));
  EXPECT_NE(records_of(stream_of("E", 3)), records_of(stream_of("E", 4)));
}

TEST(workloads, scans_are_1_to_100_long_evenly) {
  std::map<unsigned, unsigned> lengths;
  double sum = 0, scans = 0;
  for (const operation& one : stream_of("E").operations) {
    if (one.kind != operation_kind::scan) continue;
    ++lengths[one.scan_length];
    sum += one.scan_length;
    ++scans;
  }
  EXPECT_EQ(lengths.begin()->first, 1U);
  EXPECT_EQ(lengths.rbegin()->first, 100U);
  EXPECT_EQ(lengths.size(), 100U);
  EXPECT_NEAR(sum / scans, 50.5, 0.5);
}

TEST(workloads, records_are_those_loaded_or_inserted_before) {
  for (const char* name : {"A", "D", "E"}) {
    std::uint64_t there = records;
    for (const operation& one : stream_of(name).operations) {
      if (one.kind == operation_kind::insert) {
        ++there;
      } else {
        ASSERT_LT(one.record, there) << name;
      }
    }
  }
}

TEST(workloads, latest_reads_what_was_inserted_last_most) {
  std::map<std::uint32_t, unsigned> reads;
  for (const operation& one : stream_of("D").operations) {
    if (one.kind == operation_kind::read) ++reads[one.record];
  }
  const double all = share(stream_of("D"), operation_kind::read) * operations;
  // records grow by half while this runs; zeta grows by the logarithm of that
  EXPECT_NEAR(reads[0] / all, 1 / zeta(records * 5 / 4, theta_default), 0.005);
  EXPECT_GT(reads[0], reads[1]);
  EXPECT_GT(reads[1], reads[10]);
}

TEST(workloads, a_distribution_can_be_given) {
  const stream even =
      operations_of(workload_of_name("C"),
                    {.records = records, .operations = operations, .chosen = distribution::uniform, .seed = 1});
  std::map<std::uint32_t, unsigned> reads;
  double sum = 0;
  for (const operation& one : even.operations) {
    ++reads[one.record];
    sum += one.record;
  }
  for (const auto& [record, count] : reads) ASSERT_LT(count, 40U) << record;  // 10 each
  EXPECT_NEAR(sum / operations, records / 2.0, records / 200.0);
  EXPECT_TRUE(
      operations_of(workload_of_name("A"), {.records = records, .operations = 10, .chosen = distribution::latest})
          .from_newest);
}

TEST(insert_counter, a_record_may_be_read_when_all_before_it_are_inserted) {
  insert_counter inserts(10);
  EXPECT_EQ(inserts.acknowledged(), 10U);
  const auto first = inserts.next(), second = inserts.next(), third = inserts.next();
  EXPECT_EQ(first, 10U);
  inserts.acknowledge(second);
  EXPECT_EQ(inserts.acknowledged(), 10U);
  inserts.acknowledge(first);
  EXPECT_EQ(inserts.acknowledged(), 12U);
  inserts.acknowledge(third);
  EXPECT_EQ(inserts.acknowledged(), 13U);
}

TEST(insert_counter, threads_get_each_number_once_and_acknowledge_all) {
  constexpr unsigned threads = 4;
  constexpr std::uint64_t each = 100'000;
  insert_counter inserts(0);
  std::vector<std::vector<std::uint64_t>> taken(threads);
  std::atomic<bool> ahead{false};
  {
    std::vector<std::jthread> running;
    for (auto& mine : taken) {
      running.emplace_back([&] {
        for (std::uint64_t i = 0; i < each; ++i) {
          mine.push_back(inserts.next());
          if (inserts.acknowledged() > mine.back()) ahead = true;
          inserts.acknowledge(mine.back());
        }
      });
    }
  }
  EXPECT_FALSE(ahead) << "a record was said to be there before it was inserted";
  std::set<std::uint64_t> all;
  for (const auto& mine : taken) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), threads * each);
  inserts.acknowledge(inserts.next());  // whoever was too late for the others' turn leaves it to the next
  EXPECT_EQ(inserts.acknowledged(), threads * each + 1);
}

TEST(records, a_value_tells_whose_it_is) {
  for (const std::size_t size : {8U, 9U, 100U, 4096U}) {
    values made(size);
    const record_key key(1), other(2);
    EXPECT_EQ(number_of_key(key.bytes()), key.number());
    for (const std::uint64_t choice : {0U, 1U, 77U}) {
      const std::string value(made.make(key.number(), choice));
      EXPECT_EQ(value.size(), size);
      EXPECT_TRUE(made.is_of(key.number(), value));
      EXPECT_FALSE(made.is_of(other.number(), value));
      EXPECT_FALSE(made.is_of(key.number(), value.substr(1)));
      for (std::size_t at = 8; at < size; at += 7) {
        std::string damaged = value;
        damaged[at] = static_cast<char>(damaged[at] ^ 1);
        EXPECT_FALSE(made.is_of(key.number(), damaged)) << at;
      }
    }
  }
}

}  // namespace
}  // namespace icecore::bench::ycsb
