#include "block.h"

#include <algorithm>
#include <cstring>

namespace eb {

Cursor::Cursor(const Block& block, int index, int view)
    : block_(&block),
      view_(&block.view[view]),
      pages_(block.page_table + index * block.page_count),
      width_(std::min<int>(block.widths[index], block.view[view].planes)) {
  if (view_->tables_offset < 0 || width_ == 0) return;
  const int64_t entries = int64_t{1} << width_;
  if (!copy(view_->tables_offset + entries, entries, own_table_)) width_ = 0;
}

const uint8_t* Cursor::table() const {
  if (width_ == 0) return nullptr;
  if (view_->tables_offset >= 0) return own_table_;
  return view_->tables == nullptr ? nullptr : view_->tables + (width_ - 1) * kMostEntries;
}

// The page that holds `offset` of the block's address space.
bool Cursor::locate(int64_t offset, Run* run) const {
  const int64_t page = offset / block_->page_bytes;
  const int32_t id = page < block_->page_count ? pages_[page] : -1;
  if (id < 0 || id / block_->pages_per_slab >= block_->slabs) return false;
  run->begin = page * block_->page_bytes;
  run->end = run->begin + block_->page_bytes;
  run->base = reinterpret_cast<const uint8_t*>(block_->slab_bases[id / block_->pages_per_slab]) +
              (id % block_->pages_per_slab) * block_->page_bytes;
  return true;
}

bool Cursor::segment(int strip, int group, Segment* out) {
  const int groups = view_->groups();
  const int64_t within = (static_cast<int64_t>(strip) * groups + group) * kLineBytes;
  int64_t run_bytes = static_cast<int64_t>(groups - group) * kLineBytes;
  for (int p = 0; p < width_; ++p) {
    Run& run = runs_[p];
    const int64_t offset = view_->plane_offset[p] + within;
    if ((offset < run.begin || offset >= run.end) && !locate(offset, &run)) return false;
    out->lines[p] = run.base + (offset - run.begin);
    run_bytes = std::min(run_bytes, run.end - offset);
  }
  out->groups = static_cast<int>(run_bytes / kLineBytes);
  return out->groups > 0;
}

const uint8_t* Cursor::meta(int strip, uint8_t* room) const {
  const int64_t bytes = view_->strip_meta_bytes;
  int64_t offset = view_->meta_offset + strip * bytes;
  Run run;
  if (!locate(offset, &run)) return nullptr;
  if (offset + bytes <= run.end) return run.base + (offset - run.begin);
  return copy(offset, bytes, room) ? room : nullptr;
}

bool Cursor::copy(int64_t offset, int64_t bytes, uint8_t* to) const {
  Run run;
  for (int64_t done = 0; done < bytes;) {
    if (!locate(offset + done, &run)) return false;
    const int64_t part = std::min(bytes - done, run.end - (offset + done));
    std::memcpy(to + done, run.base + (offset + done - run.begin), part);
    done += part;
  }
  return true;
}

}  // namespace eb
