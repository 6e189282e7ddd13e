/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading rows from the features files: each run of rows that is contiguous in a file is read with
 * direct I/O, page by page where the alignment allows it, otherwise through a bounce buffer.
 */
#include <string.h>

#include "tier/load.h"

int rung__row_loader_open(const struct rung__features *features,
                          struct rung__row_loader *loader_out)
{
	struct rung__row_loader loader = { .features = features };
	int rc;

	for (uint64_t f = 0; f < features->layout.file_count; f++)
		loader.files[f].fd = -1;
	loader.bounce = rung__map_pages(RUNG__LOAD_BYTES);
	rc = loader.bounce ? 0
	                   : rung__fail(RUNG_E_NOMEM, "%s: no memory for the read buffer",
	                                features->files[0].path);
	for (uint64_t f = 0; f < features->layout.file_count && rc == 0; f++)
		rc = rung__direct_open(&loader.files[f], features->files[f].fd,
		                       features->files[f].path);
	if (rc == 0 && features->layout.vertex_of_rank)
		rc = rung__scattered_open(features, &loader.scattered);
	if (rc < 0) {
		rung__row_loader_close(&loader);
		return rc;
	}
	*loader_out = loader;
	return 0;
}

void rung__row_loader_close(struct rung__row_loader *loader)
{
	rung__scattered_close(loader->scattered);
	for (uint64_t f = 0; f < loader->features->layout.file_count; f++)
		rung__direct_close(&loader->files[f]);
	rung__unmap_pages(loader->bounce, RUNG__LOAD_BYTES);
}

/*
 * Touch every page. In a virtual machine a CPU's first access to a page that a device has written
 * faults once more, in the page tables of the host: a few microseconds per page, spent here and not
 * in the gathers of the first epoch.
 */
static void inspect_pages(const unsigned char *memory, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += RUNG__PAGE_BYTES)
		(void)*(const volatile unsigned char *)(memory + at);
}

/* Read through the bounce buffer, from the page that contains `offset` on. The bytes fit into the
 * buffer. */
static int read_through(const struct rung__row_loader *loader, uint32_t file_idx, uint64_t offset,
                        uint64_t bytes, unsigned char *to)
{
	uint64_t lead = offset % RUNG__PAGE_BYTES;
	int rc = rung__direct_read(&loader->files[file_idx], loader->bounce, lead + bytes,
	                           offset - lead);

	if (rc == 0)
		memcpy(to, loader->bounce + lead, bytes);
	return rc;
}

int rung__row_loader_read(const struct rung__row_loader *loader, uint32_t file_idx, uint64_t offset,
                          uint64_t bytes, unsigned char *to)
{
	int rc = 0;

	while (bytes > 0 && rc == 0) {
		uint64_t lead = offset % RUNG__PAGE_BYTES, part;

		/* file and memory have different offsets in their pages, so direct I/O can never
		 * write there */
		if ((uintptr_t)to % RUNG__PAGE_BYTES != lead) {
			part = RUNG__MIN(bytes, RUNG__LOAD_BYTES - lead);
			rc = read_through(loader, file_idx, offset, part, to);
		} else if (lead > 0) {
			/* up to the next page, from which on direct reads continue */
			part = RUNG__MIN(bytes, RUNG__PAGE_BYTES - lead);
			rc = read_through(loader, file_idx, offset, part, to);
		} else {
			part = RUNG__MIN(bytes, RUNG__LOAD_BYTES);
			rc = rung__direct_read(&loader->files[file_idx], to, part, offset);
			if (rc == 0)
				inspect_pages(to, part);
		}
		offset += part;
		bytes -= part;
		to += part;
	}
	return rc;
}

int rung__row_loader_rows(const struct rung__row_loader *loader, uint64_t first, uint64_t rows,
                          unsigned char *to)
{
	const struct rung__layout *layout = &loader->features->layout;
	int rc = 0;

	if (loader->scattered)
		return rung__scattered_rows(loader->scattered, first, rows, to);
	while (rows > 0 && rc == 0) {
		uint64_t run = rung__row_run(layout, first, rows),
			 file_idx = rung__row_file(layout, first);
		uint64_t offset = rung__row_offset(layout, first);

		/* the file can end right after the bytes of its last row, before a full stride */
		rc = rung__row_loader_read(
			loader, (uint32_t)file_idx, offset,
			RUNG__MIN(run * layout->row_stride, layout->file_bytes[file_idx] - offset),
			to);
		first += run;
		rows -= run;
		to += run * layout->row_stride;
	}
	return rc;
}

int rung__load_rows(const struct rung__features *features, uint64_t first, uint64_t rows,
                    unsigned char *to)
{
	struct rung__row_loader loader;
	int rc = rung__row_loader_open(features, &loader);

	if (rc < 0)
		return rc;
	rc = rung__row_loader_rows(&loader, first, rows, to);
	rung__row_loader_close(&loader);
	return rc;
}
