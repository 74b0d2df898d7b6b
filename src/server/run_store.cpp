// SPDX-License-Identifier: Apache-2.0
// Files are read by a few threads at once, as many as the memory budget allows; a run shows what is
// there already.
#include "server/run_store.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/cpu.h"
#include "base/log.h"
#include "trace/reader.h"
#include "trace/tree_view.h"

namespace camshaft::server {

namespace fs = std::filesystem;
using trace::Profile;
using trace::Semantics;

namespace {

constexpr std::string_view kSuffix = ".pt.trace.json";
constexpr std::string_view kPackings[] = {"", ".gz", ".zst", ".zip"};

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

bool is_packed(const std::string& path) {
  return !ends_with(path, ".json");
}

uint64_t free_memory() {
  const long pages = ::sysconf(_SC_AVPHYS_PAGES), bytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(bytes)
                                : uint64_t{4} << 30;
}

// What reading a file will hold: columns take about a third of the JSON, and JSON packs about 20
// to 1.
uint64_t estimated_cost(const std::string& path, uint64_t bytes) {
  return is_packed(path) ? bytes * 8 : bytes / 2;
}

}  // namespace

bool parse_trace_name(const std::string& file_name, TraceFile& file) {
  for (const std::string_view packing : kPackings) {
    const std::string end = std::string(kSuffix) + std::string(packing);
    if (!ends_with(file_name, end)) continue;
    const std::string stem = file_name.substr(0, file_name.size() - end.size());
    const size_t dot = stem.rfind('.');
    const bool stamped = dot != stem.npos && dot + 1 < stem.size() &&
                         stem.find_first_not_of("0123456789", dot + 1) == stem.npos;
    file.worker = stamped ? stem.substr(0, dot) : stem;
    file.stamp = stamped ? stem.substr(dot + 1) : "";
    return true;
  }
  return false;
}

ProfileEntry::ProfileEntry(TraceFile file, std::string span,
                           std::shared_ptr<const trace::Trace> trace,
                           std::shared_ptr<const Profile> first)
    : file_(std::move(file)),
      span_(std::move(span)),
      trace_(std::move(trace)),
      first_(std::move(first)) {}

std::shared_ptr<const Profile> ProfileEntry::profile(const Semantics& semantics) const {
  const auto matches = [&](const Profile& profile) {
    return profile.semantics.original == semantics.original &&
           profile.semantics.dialect == semantics.dialect;
  };
  if (matches(*first_)) return first_;
  const std::lock_guard lock(mutex_);
  if (other_ != nullptr && matches(*other_)) return other_;
  other_ = nullptr;  // makes room first
  auto made = trace::analyze(trace_, semantics);
  made->name = file_.path;
  made->worker = file_.worker;
  made->span = span_;
  other_ = std::move(made);
  return other_;
}

const trace::Insights& ProfileEntry::insights() const {
  std::call_once(insights_made_, [&] { insights_ = trace::find_insights(*first_); });
  return insights_;
}

const trace::Timeline& ProfileEntry::timeline() const {
  std::call_once(timeline_made_, [&] { timeline_ = trace::build_timeline(*trace_); });
  return timeline_;
}

const ProfileEntry* Run::find(const std::string& worker, const std::string& span) const {
  const auto found = entries.find({worker, span});
  return found == entries.end() ? nullptr : found->second.get();
}

std::vector<std::string> Run::workers() const {
  std::set<std::string> names;
  for (const auto& [key, entry] : entries) names.insert(key.first);
  return {names.begin(), names.end()};
}

std::vector<std::string> Run::spans() const {
  std::set<std::string> names;
  for (const auto& [key, entry] : entries) names.insert(key.second);
  return {names.begin(), names.end()};
}

std::shared_ptr<const trace::CrossRank> Run::ranks(const std::string& span) const {
  const std::lock_guard lock(cross_->mutex);
  std::shared_ptr<const trace::CrossRank>& known = cross_->by_span[span];
  if (known != nullptr) return known;
  std::vector<const Profile*> workers;
  for (const auto& [key, entry] : entries)
    if (key.second == span) workers.push_back(entry->profile().get());
  known = std::make_shared<const trace::CrossRank>(trace::match_collectives(workers));
  return known;
}

std::vector<trace::Finding> Run::findings(const ProfileEntry& entry) const {
  const auto together = ranks(entry.span());
  for (size_t k = 0; k < together->ranks.size(); ++k)
    if (together->ranks[k].worker == entry.file().worker)
      return trace::with_ranks(entry.insights().findings, *together, k);
  return entry.insights().findings;
}

RunStore::RunStore(std::vector<std::string> paths, StoreOptions options)
    : paths_(std::move(paths)), options_(options) {
  if (options_.threads <= 0) options_.threads = default_num_threads();
  if (options_.memory_budget == 0) options_.memory_budget = free_memory() / 2;
}

RunStore::~RunStore() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RunStore::start() {
  scan();
  for (int k = 0; k < options_.threads; ++k) threads_.emplace_back([this] { work_loop(); });
  if (options_.rescan_seconds > 0) threads_.emplace_back([this] { scan_loop(); });
}

void RunStore::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stop_ || !state_.loading(); });
}

LoadState RunStore::state() const {
  const std::lock_guard lock(mutex_);
  LoadState now = state_;
  for (const auto& [path, note] : notes_) {
    now.failed += note.failed ? 1 : 0;
    now.messages.push_back(note.text);
  }
  return now;
}

std::vector<std::string> RunStore::run_names() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, run] : runs_)
    if (!run->entries.empty()) names.push_back(name);
  return names;
}

std::shared_ptr<const Run> RunStore::run(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = runs_.find(name);
  if (found == runs_.end() || found->second->entries.empty()) return nullptr;
  return found->second;  // never changes: another takes its place
}

std::shared_ptr<const trace::DiffNode> RunStore::diff(
    const std::shared_ptr<const Profile>& left, const std::shared_ptr<const Profile>& right) const {
  constexpr size_t kKept = 2;
  const std::lock_guard lock(diff_mutex_);
  for (const KeptDiff& kept : diffs_)
    if (kept.left == left && kept.right == right) return kept.node;
  auto made = std::make_shared<const trace::DiffNode>(trace::diff_profiles(*left, *right));
  diffs_.push_back({left, right, made});
  if (diffs_.size() > kKept) diffs_.pop_front();
  return made;
}

// Folders with trace files, links followed once each.
void RunStore::scan_folder(const std::string& root,
                           std::map<std::string, std::vector<TraceFile>>& found) const {
  std::set<fs::path> seen;
  std::vector<fs::path> open{root};
  std::error_code error;
  while (!open.empty()) {
    const fs::path folder = open.back();
    open.pop_back();
    const fs::path real = fs::canonical(folder, error);
    if (error || !seen.insert(real).second) continue;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      std::error_code entry_error;
      if (at->is_directory(entry_error)) {
        open.push_back(at->path());
        continue;
      }
      TraceFile file;
      if (!at->is_regular_file(entry_error) ||
          !parse_trace_name(at->path().filename().string(), file))
        continue;
      file.path = at->path().string();
      const fs::path relative = folder.lexically_relative(root);
      std::string name = relative == "." ? fs::canonical(root, entry_error).filename().string()
                                         : relative.string();
      found[name].push_back(std::move(file));
    }
  }
}

std::vector<RunStore::Job> RunStore::jobs_of(const std::string& run,
                                             const std::vector<TraceFile>& files) {
  std::map<std::string, std::set<std::string>> stamps;  // sorted as texts, numbered from 1
  for (const TraceFile& file : files)
    if (!file.stamp.empty()) stamps[file.worker].insert(file.stamp);
  std::vector<Job> jobs;
  for (const TraceFile& file : files) {
    Job job{run, file, "default", 0, 0, 0};
    std::error_code error;
    job.bytes = fs::file_size(file.path, error);
    if (error) continue;
    job.changed = fs::last_write_time(file.path, error).time_since_epoch().count();
    if (!file.stamp.empty()) {
      const auto& known = stamps[file.worker];
      job.span = std::to_string(std::distance(known.begin(), known.find(file.stamp)) + 1);
    }
    job.cost = estimated_cost(file.path, job.bytes);
    jobs.push_back(std::move(job));
  }
  return jobs;
}

// A file is read when it is new, when it has changed since (it was still being written, or was
// written again) and when an earlier span that came later gives it another number.
void RunStore::scan() {
  std::map<std::string, std::vector<TraceFile>> found;
  std::error_code error;
  for (const std::string& path : paths_) {
    if (fs::is_directory(path, error)) {
      scan_folder(path, found);
      continue;
    }
    TraceFile file;
    if (!parse_trace_name(fs::path(path).filename().string(), file))
      file.worker = fs::path(path).filename().string();
    file.path = path;
    found[fs::absolute(path, error).parent_path().filename().string()].push_back(std::move(file));
  }
  std::vector<Job> fresh;
  for (auto& [run, files] : found) {
    std::sort(files.begin(), files.end(),
              [](const TraceFile& a, const TraceFile& b) { return a.path < b.path; });
    for (Job& job : jobs_of(run, files)) fresh.push_back(std::move(job));
  }
  const std::lock_guard lock(mutex_);
  std::reverse(fresh.begin(), fresh.end());
  for (Job& job : fresh) {
    Known now{job.bytes, job.changed, job.span};
    Known& known = known_files_[job.file.path];
    if (known == now) continue;
    known = std::move(now);
    auto& run = runs_[job.run];
    if (run == nullptr) run = std::make_shared<Run>(job.run);
    ++state_.files;
    state_.bytes += job.bytes;
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
}

// False when the file has changed since: it will be read again.
bool RunStore::is_current(const Job& job) const {
  const auto known = known_files_.find(job.file.path);
  return known != known_files_.end() && known->second == Known{job.bytes, job.changed, job.span};
}

void RunStore::scan_loop() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::seconds(options_.rescan_seconds),
                            [&] { return stop_.load(); })) {
    lock.unlock();
    scan();
    lock.lock();
  }
}

void RunStore::work_loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] {
      return stop_ || (!jobs_.empty() &&
                       (busy_ == 0 || in_flight_ + jobs_.back().cost <= options_.memory_budget));
    });
    if (stop_) return;
    const Job job = std::move(jobs_.back());
    jobs_.pop_back();
    ++busy_;
    in_flight_ += job.cost;
    lock.unlock();
    read(job);
    lock.lock();
    --busy_;
    in_flight_ -= job.cost;
    ++state_.done;
    changed_.notify_all();
  }
}

void RunStore::read(const Job& job) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_current(job)) return;
  }
  trace::ReadOptions options;
  options.cancel = &stop_;
  uint64_t reported = 0;
  options.progress = [&](const trace::ReadProgress& progress) {
    const std::lock_guard lock(mutex_);
    state_.bytes_done += progress.bytes_done - reported;
    reported = progress.bytes_done;
  };
  auto read = trace::read_trace(job.file.path, options);
  if (!read.ok()) {
    log(Severity::kWarning, "{}", read.status().message());
    const std::lock_guard lock(mutex_);
    if (is_current(job)) notes_[job.file.path] = {read.status().message(), true};
    return;
  }
  auto trace = std::make_shared<const trace::Trace>(std::move(read).value());
  Semantics semantics;
  semantics.original = options_.original;
  semantics.plugin_clock = options_.plugin_clock;
  semantics.as_recorded = options_.as_recorded;
  semantics.dialect = options_.force_dialect ? options_.dialect : trace::dialect_of(*trace);
  auto profile = trace::analyze(trace, semantics);
  profile->worker = job.file.worker;
  profile->span = job.span;
  profile->name = job.file.path;
  const auto entry =
      std::make_shared<const ProfileEntry>(job.file, job.span, trace, std::move(profile));
  {
    const std::lock_guard lock(mutex_);
    if (!is_current(job)) return;
    notes_.erase(job.file.path);
    if (!trace->report.note.empty())
      notes_[job.file.path] = {job.file.path + ": " + trace->report.note, false};
    auto updated = std::make_shared<Run>(*runs_[job.run]);
    updated->forget_ranks();
    for (auto at = updated->entries.begin(); at != updated->entries.end();)
      at = at->second->file().path == job.file.path ? updated->entries.erase(at) : std::next(at);
    updated->entries[{job.file.worker, job.span}] = entry;
    runs_[job.run] = std::move(updated);
  }
  entry->timeline();
  entry->insights();
  trace::tree_view(*entry->profile());
}

}  // namespace camshaft::server
