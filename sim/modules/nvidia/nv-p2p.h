/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Symbols of nvidia for modules of other sources: nvidia-fs and gdrdrv. */
#ifndef NV_P2P_H
#define NV_P2P_H

int nvidia_p2p_get_pages(void);

#endif
