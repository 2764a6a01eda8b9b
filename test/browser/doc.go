// Package browser looks at the page of the seckill example with a real Chromium.
// It is a separate module, so that neither the library nor the example needs
// the driver of a browser.
package browser
