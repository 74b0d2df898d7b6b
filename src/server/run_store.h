// SPDX-License-Identifier: Apache-2.0
// The runs below a folder: which trace files there are, read in the background, looked up by run,
// worker and span.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "trace/cross_rank.h"
#include "trace/diff.h"
#include "trace/insights.h"
#include "trace/profile.h"
#include "trace/timeline.h"

namespace camshaft::server {

struct TraceFile {
  std::string path;
  std::string worker;
  std::string stamp;  // digits before .pt.trace.json, "" if there are none
};

// Splits "<worker>[.<digits>].pt.trace.json[.gz|.zst|.zip]"; false for other names.
bool parse_trace_name(const std::string& file_name, TraceFile& file);

struct StoreOptions {
  bool original = false;
  bool plugin_clock = false;  // see trace::Semantics
  bool as_recorded = false;
  bool force_dialect = false;
  trace::Dialect dialect = trace::Dialect::kGpu;
  int threads = 0;             // 0: as many as the machine gives
  uint64_t memory_budget = 0;  // bytes of files being read at once; 0: half of what is free
  int rescan_seconds = 10;     // 0: look once
};

// One file's trace with the ways of reading it that were asked for so far.
class ProfileEntry {
 public:
  ProfileEntry(TraceFile file, std::string span, std::shared_ptr<const trace::Trace> trace,
               std::shared_ptr<const trace::Profile> first);

  const TraceFile& file() const { return file_; }
  const std::string& span() const { return span_; }
  std::shared_ptr<const trace::Profile> profile() const { return first_; }
  // Made on first use; the loader asks for them right after it shows the entry.
  const trace::Insights& insights() const;
  const trace::Timeline& timeline() const;
  // The same trace in another dialect or mode: worked out anew, the last one is kept.
  std::shared_ptr<const trace::Profile> profile(const trace::Semantics& semantics) const;

 private:
  TraceFile file_;
  std::string span_;
  std::shared_ptr<const trace::Trace> trace_;
  std::shared_ptr<const trace::Profile> first_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const trace::Profile> other_;
  mutable std::once_flag insights_made_, timeline_made_;
  mutable trace::Insights insights_;
  mutable trace::Timeline timeline_;
};

struct Run {
  explicit Run(std::string called) : name(std::move(called)) {}

  std::string name;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const ProfileEntry>>
      entries;  // (worker, span)

  const ProfileEntry* find(const std::string& worker, const std::string& span) const;
  std::vector<std::string> workers() const;
  std::vector<std::string> spans() const;
  // What the workers of a span say together; worked out on first use.
  std::shared_ptr<const trace::CrossRank> ranks(const std::string& span) const;
  // What stands out in a profile, the other workers of its span considered.
  std::vector<trace::Finding> findings(const ProfileEntry& entry) const;
  void forget_ranks() { cross_ = std::make_shared<CrossCache>(); }

 private:
  struct CrossCache {
    std::mutex mutex;
    std::map<std::string, std::shared_ptr<const trace::CrossRank>> by_span;
  };
  std::shared_ptr<CrossCache> cross_ = std::make_shared<CrossCache>();
};

struct LoadState {
  size_t files = 0, done = 0, failed = 0;
  uint64_t bytes = 0, bytes_done = 0;
  std::vector<std::string> messages;  // files that failed or were read in part, one each

  bool loading() const { return done < files; }
};

class RunStore {
 public:
  // `path` is a folder that is searched for runs, or one trace file.
  RunStore(std::vector<std::string> paths, StoreOptions options);
  ~RunStore();

  void start();  // begins to read in the background
  void wait();   // until everything known has been read
  LoadState state() const;
  std::vector<std::string> run_names() const;
  std::shared_ptr<const Run> run(const std::string& name) const;
  const StoreOptions& options() const { return options_; }
  // Two profiles compared; the last few are kept, for a page walks down their nodes.
  std::shared_ptr<const trace::DiffNode> diff(
      const std::shared_ptr<const trace::Profile>& left,
      const std::shared_ptr<const trace::Profile>& right) const;

 private:
  struct Job {
    std::string run;
    TraceFile file;
    std::string span;
    uint64_t bytes = 0, cost = 0;
    int64_t changed = 0;  // when the file was, as its folder says
  };
  // A file as it was when it was last given to a reader.
  struct Known {
    uint64_t bytes = 0;
    int64_t changed = 0;
    std::string span;

    bool operator==(const Known&) const = default;
  };
  struct Note {
    std::string text;
    bool failed = false;
  };
  void scan();
  static std::vector<Job> jobs_of(const std::string& run, const std::vector<TraceFile>& files);
  bool is_current(const Job& job) const;
  void scan_folder(const std::string& root,
                   std::map<std::string, std::vector<TraceFile>>& found) const;
  void scan_loop();
  void work_loop();
  void read(const Job& job);

  struct KeptDiff {
    std::shared_ptr<const trace::Profile> left, right;
    std::shared_ptr<const trace::DiffNode> node;
  };

  std::vector<std::string> paths_;
  StoreOptions options_;
  mutable std::mutex diff_mutex_;
  mutable std::deque<KeptDiff> diffs_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<Run>> runs_;
  std::map<std::string, Known> known_files_;
  std::map<std::string, Note> notes_;  // by path, of its last reading
  std::vector<Job> jobs_;              // not yet begun, last first
  LoadState state_;
  uint64_t in_flight_ = 0;
  size_t busy_ = 0;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace camshaft::server
