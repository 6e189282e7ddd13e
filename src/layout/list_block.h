/* SPDX-License-Identifier: Apache-2.0 */
/** The unit in which neighbour lists are read from their file. */
#ifndef RUNG_LAYOUT_LIST_BLOCK_H
#define RUNG_LAYOUT_LIST_BLOCK_H

/** Bytes of a block of neighbour lists: a sector of most devices, and a whole number of ids. */
#define RUNG__LIST_BLOCK_BYTES 512u

#endif
