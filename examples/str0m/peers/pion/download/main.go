// Serves the page of browser-download by pion/webrtc: the same page, the same offers by HTTP, the same channels. `../../../measure` compares the
// stacks with it.
//
//	download --page DIR [--address IP] [--port PORT] [--mb SIZE]
package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/webrtc/v4"
)

// As in browser-download: the length of a message, and the limits of what waits.
const (
	message = 16 * 1024
	high    = 768 * 1024
	low     = 384 * 1024
)

const tick = 100 * time.Millisecond

// Returns a part of the download; the page computes the same bytes.
func content(start uint64, length int) []byte {
	data := make([]byte, length)
	for at := range data {
		data[at] = byte(uint32(start+uint64(at)) * 0x9E3779B1 >> 24)
	}
	return data
}

type browser struct {
	bytes uint64
	ticks *webrtc.DataChannel
}

// Sends the download.
func (b *browser) download(channel *webrtc.DataChannel) {
	hasRoom := make(chan struct{}, 1)
	channel.SetBufferedAmountLowThreshold(low)
	channel.OnBufferedAmountLow(func() {
		select {
		case hasRoom <- struct{}{}:
		default:
		}
	})
	if channel.SendText(fmt.Sprintf("bytes %d", b.bytes)) != nil {
		return
	}
	done := make(chan struct{})
	defer close(done)
	go b.sendTicks(done)
	for sent := uint64(0); sent < b.bytes; {
		if channel.BufferedAmount()+message > high {
			<-hasRoom
			continue
		}
		length := min(message, b.bytes-sent)
		if channel.Send(content(sent, int(length))) != nil {
			return
		}
		sent += length
	}
	// The rest of it is on its way.
	for channel.BufferedAmount() > 0 && channel.ReadyState() == webrtc.DataChannelStateOpen {
		time.Sleep(tick)
	}
}

// Sends the time, if the browser has opened the channel for it.
func (b *browser) sendTicks(done <-chan struct{}) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for b.ticks != nil {
		select {
		case <-done:
			return
		case <-ticker.C:
			if b.ticks.SendText(strconv.FormatInt(time.Now().UnixMicro(), 10)) != nil {
				return
			}
		}
	}
}

func (b *browser) use(channel *webrtc.DataChannel) {
	label := channel.Label()
	if label == "ticks" {
		b.ticks = channel
	}
	channel.OnMessage(func(received webrtc.DataChannelMessage) {
		if label == "download" && string(received.Data) == "get" {
			go b.download(channel)
		} else if strings.HasPrefix(label, "chat-") {
			_ = channel.SendText("echo: " + string(received.Data))
		}
	})
}

func answer(api *webrtc.API, offer string, bytes uint64) (string, error) {
	connection, err := api.NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		return "", err
	}
	connection.OnConnectionStateChange(func(state webrtc.PeerConnectionState) {
		if state == webrtc.PeerConnectionStateFailed || state == webrtc.PeerConnectionStateDisconnected {
			_ = connection.Close()
		}
	})
	connection.OnDataChannel((&browser{bytes: bytes}).use)
	if err := connection.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeOffer, SDP: offer}); err != nil {
		return "", err
	}
	description, err := connection.CreateAnswer(nil)
	if err != nil {
		return "", err
	}
	gathered := webrtc.GatheringCompletePromise(connection)
	if err := connection.SetLocalDescription(description); err != nil {
		return "", err
	}
	<-gathered
	return connection.LocalDescription().SDP, nil
}

func main() {
	page := flag.String("page", "", "folder of the page")
	address := flag.String("address", "127.0.0.1", "address of the page and of the data channels")
	port := flag.Int("port", 8080, "TCP port of the page")
	megabytes := flag.Uint64("mb", 50, "size of the download in MB")
	flag.Parse()

	engine := webrtc.SettingEngine{}
	engine.SetLite(true)
	engine.SetIncludeLoopbackCandidate(true)
	own := net.ParseIP(*address)
	engine.SetIPFilter(func(ip net.IP) bool { return ip.Equal(own) })
	engine.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	engine.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	api := webrtc.NewAPI(webrtc.WithSettingEngine(engine))

	http.Handle("GET /", http.FileServer(http.Dir(*page)))
	http.HandleFunc("POST /offer", func(response http.ResponseWriter, request *http.Request) {
		offer, err := io.ReadAll(io.LimitReader(request.Body, 1<<16))
		if err == nil {
			var sdp string
			if sdp, err = answer(api, string(offer), *megabytes*1_000_000); err == nil {
				response.Header().Set("Content-Type", "application/sdp")
				_, _ = io.WriteString(response, sdp)
				return
			}
		}
		http.Error(response, err.Error(), http.StatusBadRequest)
	})
	place := net.JoinHostPort(*address, strconv.Itoa(*port))
	fmt.Printf("open http://%s/ in a browser\n", place)
	if err := http.ListenAndServe(place, nil); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
}
