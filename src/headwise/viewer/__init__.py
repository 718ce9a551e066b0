"""The viewer: one offline page that shows what attention is and is not."""

from headwise.viewer.view import View, frame, page_of, save_page, show, view, view_of

__all__ = ["View", "frame", "page_of", "save_page", "show", "view", "view_of"]
