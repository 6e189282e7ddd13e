/* SPDX-License-Identifier: Apache-2.0 */
/* Where a dataset's rows lie. */
#include <string.h>

#include "tier.h"

int rung__features_file(const struct rung_dataset *ds, char **path_out, uint64_t *data_offset_out, uint64_t *file_bytes_out)
{
	const struct rung_dataset_file *file = NULL;
	char *path;

	for (size_t i = 0; (file = rung_dataset_file(ds, i)) != NULL; i++) {
		if (strncmp(file->name, "features.", strlen("features.")) == 0)
			break;
	}
	if (!file)
		return rung__fail(RUNG_E_FORMAT, "%s: the manifest lists no features file: stage it again", rung_dataset_dir(ds));
	path = rung__format("%s/%s", rung_dataset_dir(ds), file->name);
	if (!path)
		return rung__fail(RUNG_E_NOMEM, "%s: out of memory", rung_dataset_dir(ds));
	*path_out = path;
	*data_offset_out = file->data_offset;
	*file_bytes_out = file->bytes;
	return 0;
}
